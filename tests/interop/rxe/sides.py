"""Where programs run: under `weft run` here, under `weft run` in a second network namespace, or on rxe
in the virtual machine. Each side starts commands and says whether somebody listens."""

import os
import pathlib
import re
import shlex
import subprocess

import guest
import processes

TAP = "weft-rxe"
TRACER = "verbs_tracer.so"  # to be preloaded before a device, weft's too
HERE = {"IPv4": "10.99.0.1", "IPv6": "fd99::1"}
THERE = {"IPv4": guest.IPV4, "IPv6": guest.IPV6}
MTU = 1500


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def set_up_tap():
    ip("link set lo up")
    ip(f"tuntap add {TAP} mode tap")
    give_addresses(TAP, HERE)


def give_addresses(interface, addresses, inside=()):
    for words in (f"link set {interface} mtu {MTU} up",
                  f"addr add {addresses['IPv4']}/24 dev {interface}",
                  f"-6 addr add {addresses['IPv6']}/64 dev {interface} nodad"):
        subprocess.run([*inside, "ip", *words.split()], check=True)


def listens_in(table, port):
    """A socket in state 0A, which is LISTEN."""
    return re.search(rf"[0-9A-F]:{port:04X} [0-9A-F]+:0000 0A", table) is not None


class WeftSide:
    """Programs under `weft run`, in this namespace."""
    name, addresses, proc, inside, is_slow = "weft", HERE, "/proc", (), False

    def __init__(self, weft, folder, tools, options=()):
        self.weft, self.folder, self.tools, self.options = weft, folder, tools, options
        self.started = 0

    def words(self, _family):
        return {"device": "weft0", "gid": "3", "tracer": f"{self.tools}/{TRACER}"}

    def start(self, words, family, limit_s):
        self.started += 1
        path = f"{self.tools}:{self.weft.parent}:{os.environ['PATH']}"
        env = dict(os.environ, LC_ALL="C.UTF-8", PATH=path)
        command = [*self.inside, "timeout", str(limit_s), str(self.weft), "run", *self.options,
                   "--device", f"weft0={self.addresses[family]}", "--", *shlex.split(words)]
        return processes.Program(command, self.folder, f"{self.name}-{self.started}", env)

    def table(self, name):
        return pathlib.Path(f"{self.proc}/net/{name}").read_text()

    def tcp_listens(self, port):
        return any(listens_in(self.table(name), port) for name in ("tcp", "tcp6"))

    def manager_listens(self, port):
        """The name of a bound port; it listens a moment later."""
        return re.search(rf"@weft/cm/[0-9a-f]+/{port}/", self.table("unix")) is not None

    def close(self):
        pass


class OtherWeftSide(WeftSide):
    """The same at the far end of a cable: a namespace of its own, which lives as long as this."""
    name, addresses = "far weft", THERE

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 3600"],
                                       stdout=subprocess.PIPE)
        self.holder.stdout.read(1)
        self.proc = f"/proc/{self.holder.pid}"
        self.inside = ("nsenter", "-t", str(self.holder.pid), "-n")
        ip("link set lo up")
        ip(f"link add weft-a type veth peer name weft-b netns {self.holder.pid}")
        give_addresses("weft-a", HERE)
        give_addresses("weft-b", THERE, self.inside)
        subprocess.run([*self.inside, "ip", "link", "set", "lo", "up"], check=True)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class GuestSide:
    """Programs in the virtual machine."""
    name, addresses, is_slow = "rxe", THERE, True

    def __init__(self, machine):
        self.machine = machine

    def words(self, family):
        return {"device": "rxe0", "gid": str(self.machine.gids[sysfs_form(family)]),
                "tracer": f"/usr/bin/{TRACER}"}

    def start(self, words, _family, limit_s):
        return self.machine.start(words, limit_s)

    def tcp_listens(self, port):
        return listens_in(self.machine.run("cat /proc/net/tcp /proc/net/tcp6"), port)

    def manager_listens(self, port):
        return re.search(rf"state LISTEN.*:{port}\b",
                         self.machine.run("rdma resource show cm_id")) is not None

    def close(self):
        self.machine.close()


def sysfs_form(family):
    """The guest's address as sysfs lists it."""
    if family == "IPv4":
        a, b, c, d = (int(part) for part in guest.IPV4.split("."))
        return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"
    return "fd99:0000:0000:0000:0000:0000:0000:0002"
