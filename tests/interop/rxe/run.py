"""Lets weft and Linux's rxe talk to each other, in both directions, and says what works.

    run.py --weft build/bin/weft             all cases
    run.py --weft build/bin/weft --only rc_  those whose name contains the text

rxe runs in a virtual machine whose network card is a tap in a network namespace of this command's
own, in which weft's side runs too: nothing reaches the network, and nothing is left behind. Every
frame is recorded there; the ICRC of each is checked, and tshark must find none malformed."""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cases  # noqa: E402
import guest  # noqa: E402
import guest_image  # noqa: E402
import icrc  # noqa: E402
import processes  # noqa: E402

TAP = "weft-rxe"
IPV4, IPV6 = "10.99.0.1", "fd99::1"
MTU = 1500
FIRST_PORT = 20000
SETTLE_S = 1.5  # for a listener that cannot be seen
INSIDE = "WEFT_RXE_INSIDE"
MALFORMED = "_ws.malformed"


class Failure(Exception):
    """What is wrong with a run."""


def enter_namespace():
    """Starts this command again in network (and, for who is not root, user) namespaces."""
    if os.environ.get(INSIDE):
        return
    own = ["unshare", "--net"]
    if os.geteuid() != 0:
        own += ["--user", "--map-root-user"]
    os.execvpe(own[0], [*own, sys.executable, *sys.argv], dict(os.environ, **{INSIDE: "1"}))


def set_up_network():
    for words in ("link set lo up", f"tuntap add {TAP} mode tap", f"link set {TAP} mtu {MTU} up",
                  f"addr add {IPV4}/24 dev {TAP}", f"-6 addr add {IPV6}/64 dev {TAP} nodad"):
        subprocess.run(["ip", *words.split()], check=True)


def sysfs_form(family):
    """The guest's address as sysfs lists it."""
    if family == "IPv4":
        a, b, c, d = (int(part) for part in guest.IPV4.split("."))
        return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"
    return "fd99:0000:0000:0000:0000:0000:0000:0002"


class WeftSide:
    """Programs under `weft run`, here."""
    name = "weft"

    def __init__(self, weft, folder, tools):
        self.weft, self.folder, self.tools = weft, folder, tools
        self.started = 0

    def words(self, family):
        return {"device": "weft0", "gid": "0"}

    def addresses(self, family):
        return {"host": IPV4 if family == "IPv4" else IPV6, "control": IPV4}

    def start(self, words, family, limit_s):
        self.started += 1
        address = self.addresses(family)["host"]
        env = dict(os.environ, LC_ALL="C.UTF-8", PATH=f"{self.tools}:{os.environ['PATH']}")
        command = ["timeout", str(limit_s), str(self.weft), "run", "--device", f"weft0={address}",
                   "--", *shlex.split(words)]
        return processes.Program(command, self.folder, f"weft-{self.started}", env)

    def listens(self, port):
        tables = [pathlib.Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
        return listens_in("\n".join(tables), port)


class GuestSide:
    """Programs in the virtual machine."""
    name = "rxe"

    def __init__(self, machine):
        self.machine = machine

    def words(self, family):
        return {"device": "rxe0", "gid": str(self.machine.gid_index(sysfs_form(family)))}

    def addresses(self, family):
        return {"host": guest.IPV4 if family == "IPv4" else guest.IPV6, "control": guest.IPV4}

    def start(self, words, family, limit_s):
        return self.machine.start(words, limit_s)

    def listens(self, port):
        return listens_in(self.machine.run("cat /proc/net/tcp /proc/net/tcp6"), port)


def listens_in(table, port):
    """A socket in state 0A, which is LISTEN."""
    return re.search(rf"[0-9A-F]:{port:04X} [0-9A-F]+:0000 0A", table) is not None


def await_server(case, side, server, port, until):
    if case.cm:
        time.sleep(SETTLE_S)
    while not case.cm and not side.listens(port):
        if server.ended() or time.monotonic() > until:
            raise Failure("the server never listened")
        time.sleep(0.05)


def run_case(case, family, server_side, client_side, port):
    """What is wrong, or nothing; and what both said."""
    programs = {}

    def start(label, side, words):
        filled = {**server_side.addresses(family), **side.words(family), "port": port}
        programs[label] = side.start(words.format(**filled), family, case.limit_s)
        return programs[label]

    def end_well(label, expect, until):
        program = programs[label]
        if not program.wait(until):
            raise Failure(f"the {label} hangs")
        if program.status() != 0:
            raise Failure(f"the {label}: {processes.describe(program.status())}")
        if not re.search(expect, program.output(), re.MULTILINE):
            raise Failure(f"the {label}'s output does not match {expect!r}")

    until = time.monotonic() + case.limit_s
    seen_port = 18599 if case.name.startswith("trial") else port
    try:
        server = start("server", server_side, case.server)
        await_server(case, server_side, server, seen_port, until)
        start("client", client_side, case.client)
        end_well("client", case.expect, until)
        end_well("server", case.expect_server, until)
        return "", ""
    except Failure as reason:
        for program in programs.values():
            program.wait(time.monotonic() + 1)
            if isinstance(program, processes.Program):
                program.end()
        said = "\n".join(f"--- {label}\n{program.output()}" for label, program in programs.items())
        return str(reason), said


def run_all(chosen, sides, rows):
    weft, rxe = sides
    port = FIRST_PORT
    for case in chosen:
        for family in case.families:
            for server, client in ((rxe, weft), (weft, rxe)):
                port += 1
                begun = time.monotonic()
                problem, said = run_case(case, family, server, client, port)
                seconds = time.monotonic() - begun
                rows.append({"case": case.name, "family": family, "client": client.name,
                             "problem": problem, "seconds": round(seconds, 1)})
                print(f"{'FAILED' if problem else 'passed':8}{case.name:38}{family:6}"
                      f"{client.name + ' calls':12}{seconds:6.1f} s  {problem}", flush=True)
                if said:
                    print("\n".join("        " + line for line in said.splitlines()[-40:]))


def judge_frames(capture):
    """What is wrong with what weft sent, or nothing."""
    problems = []
    counts = icrc.check(capture)
    ours = [bytes(map(int, IPV4.split("."))).hex(), "fd99" + "0" * 27 + "1"]
    for source in ours:
        right, wrong = counts.get(source, (0, 0))
        print(f"frames of weft from {source}: {right} with a right ICRC, {wrong} with a wrong one")
        if wrong:
            problems.append(f"{wrong} frames of {source} have a wrong ICRC")
    if not any(counts.get(source, (0, 0))[0] for source in ours):
        problems.append("weft sent no frame at all")
    if shutil.which("tshark"):
        words = ["tshark", "-r", str(capture), "-Y", MALFORMED]
        said = subprocess.run(words, capture_output=True, text=True).stdout.strip()
        print(f"tshark finds {len(said.splitlines())} malformed packets")
        if said:
            problems.append("tshark: " + said.splitlines()[0])
    else:
        problems.append("tshark is not installed")
    return problems


def build_trial(folder):
    target = folder / "trial"
    subprocess.run(["gcc", "-std=gnu11", "-O1", str(HERE / "trial.c"), "-o", str(target),
                    "-libverbs"], check=True)
    return target


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=pathlib.Path, default=pathlib.Path("build/bin/weft"))
    parser.add_argument("--only", metavar="TEXT", default="")
    parser.add_argument("--tools", type=pathlib.Path, default=pathlib.Path("build/interop"),
                        help="for the kernel and what is built; kept")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="a copy of the capture")
    return parser.parse_args()


def main():
    asked = arguments()
    enter_namespace()
    tools = asked.tools.resolve() / "rxe"
    tools.mkdir(parents=True, exist_ok=True)
    kernel, image = guest_image.make(tools, [build_trial(tools)])
    set_up_network()
    processes.adopt_orphans()
    chosen = [case for case in cases.CASES if asked.only in case.name]
    rows = []
    with tempfile.TemporaryDirectory(prefix="weft-rxe-") as folder:
        machine = guest.Guest(kernel, image, TAP, folder, MTU)
        try:
            run_all(chosen, (WeftSide(asked.weft.resolve(), folder, tools), GuestSide(machine)),
                    rows)
        finally:
            machine.close()
        problems = judge_frames(machine.capture)
        if asked.keep:
            shutil.copy(machine.capture, asked.keep)
    failed = sum(bool(row["problem"]) for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} passed" + "".join("; " + p for p in problems))
    if asked.json:
        asked.json.write_text(json.dumps({"cases": rows, "problems": problems}, indent=1) + "\n")
    return 1 if failed or problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
