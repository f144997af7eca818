"""The virtual machine: boots, tells its addresses, runs commands."""

import pathlib
import queue
import re
import subprocess
import threading
import time

BOOT_S = 300
IPV4, IPV6 = "10.99.0.2", "fd99::2"
MAC = "52:54:00:99:00:02"


class Command:
    """One that was started in the guest."""

    def __init__(self, guest, number, words):
        self.guest, self.number, self.words = guest, number, words
        self.lines, self.state, self.done = [], None, threading.Event()

    def wait(self, until):
        """Waits for its end, until that monotonic time; whether it has ended."""
        return self.done.wait(max(0, until - time.monotonic()))

    def ended(self):
        return self.done.is_set()

    def status(self):
        """None while it runs."""
        return self.state

    def output(self):
        return "\n".join(self.lines) + "\n"


class Guest:
    """A running machine; its network card is the tap."""

    def __init__(self, kernel, image, tap, folder, mtu):
        self.folder = pathlib.Path(folder)
        self.capture = self.folder / "tap.pcap"
        self.commands, self.gids, self.ready = {}, {}, threading.Event()
        self.last = 0
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
             "-monitor", "none", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "512",
             "-smp", "1", "-serial", f"file:{self.folder}/console.log",
             "-chardev", "stdio,id=c0", "-device", "virtio-serial-pci",
             "-device", "virtconsole,chardev=c0",
             "-kernel", str(kernel), "-initrd", str(image),
             "-netdev", f"tap,id=n0,ifname={tap},script=no,downscript=no,vnet_hdr=off",
             "-device", f"virtio-net-pci,netdev=n0,mac={MAC},romfile=",
             "-object", f"filter-dump,id=f0,netdev=n0,file={self.capture}",
             "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable "
             f"guest_ipv4={IPV4} guest_ipv6={IPV6} guest_mtu={mtu}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self._read, daemon=True).start()
        if not self.ready.wait(BOOT_S):
            self.close()
            raise SystemExit("the guest does not come up; its console said:\n" + self.console())

    def _read(self):
        for raw in self.process.stdout:
            line = raw.decode(errors="replace").rstrip("\r\n")
            said = re.match(r"@(\w+)([|=])(.*)", line)
            if not said:
                continue
            who, kind, rest = said.groups()
            if who == "ready":
                self.ready.set()
            elif who == "gid":
                number, _, gid = rest.partition(" ")
                self.gids[gid] = int(number)
            elif who.isdigit() and int(who) in self.commands:
                command = self.commands[int(who)]
                if kind == "|":
                    command.lines.append(rest)
                else:
                    command.state = int(rest)
                    command.done.set()

    def start(self, words, limit_s):
        """Starts a command of the guest, which is ended after so long."""
        self.last += 1
        command = self.commands[self.last] = Command(self, self.last, words)
        line = f"{self.last} exec timeout {limit_s} {words}\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return command

    def run(self, words, limit_s=10):
        command = self.start(words, limit_s)
        command.wait(time.monotonic() + limit_s + 5)
        return command.output()

    def console(self):
        path = self.folder / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self):
        self.process.kill()
        self.process.wait()
