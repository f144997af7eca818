"""Lets weft and Linux's rxe talk to each other, in both directions, and says what works.

    run.py --weft build/bin/weft              all cases
    run.py --weft build/bin/weft --only rc_   those whose name contains the text
    run.py --weft build/bin/weft --peer weft  between two hosts of weft, without rxe

rxe runs in a virtual machine whose network card is a tap in a network namespace of this command's
own, in which weft's side runs too: nothing reaches the network, and nothing is left behind. Every
frame is recorded there; the ICRC of each is checked, and tshark must find none malformed."""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
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
import sides  # noqa: E402

FIRST_PORT = 30000
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
SETTLE_S = 0.2  # between a port that is taken and a server that listens
INSIDE = "WEFT_RXE_INSIDE"
MALFORMED = "_ws.malformed"
# What tshark guesses to be in messages, by their ports; it is not.
GUESSES = ("rpcordma", "iser", "smb_direct", "nvme-rdma")


class Failure(Exception):
    """What is wrong with a run."""


def enter_namespace():
    """Starts this command again in network (and, for who is not root, user) namespaces."""
    if os.environ.get(INSIDE):
        return
    own = ["unshare", "--net"]
    if os.geteuid() != 0:
        own += ["--user", "--map-root-user"]
    if subprocess.run([*own, "ip", "link", "add", "type", "veth"], stderr=subprocess.PIPE).returncode:
        print("no network namespace can be made here")
        sys.exit(SKIPPED)
    os.execvpe(own[0], [*own, sys.executable, *sys.argv], dict(os.environ, **{INSIDE: "1"}))


def await_server(case, side, server, port, until):
    seen = case.port or port

    def listens():
        return side.manager_listens(seen) if case.cm else side.tcp_listens(seen)

    while not listens():
        if server.ended() or time.monotonic() > until:
            raise Failure("the server never listened")
        time.sleep(0.05)
    time.sleep(SETTLE_S)


def run_case(case, family, server_side, client_side, port):
    """What is wrong, or nothing; and what both said."""
    programs = {}

    def start(label, side, words):
        filled = {"host": server_side.addresses[family],
                  "control": server_side.addresses["IPv4"], **side.words(family), "port": port}
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
    try:
        server = start("server", server_side, case.server)
        await_server(case, server_side, server, port, until)
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


def run_all(chosen, here, there):
    """A row for each case, family and direction."""
    rows = []
    port = FIRST_PORT
    for case in chosen:
        for family in case.families:
            for server, client in ((there, here), (here, there)):
                if case.quick_server and server.is_slow:
                    continue
                port += 1
                begun = time.monotonic()
                problem, said = run_case(case, family, server, client, port)
                seconds = time.monotonic() - begun
                rows.append({"case": case.name, "family": family, "client": client.name,
                             "problem": problem, "seconds": round(seconds, 1)})
                print(f"{'FAILED' if problem else 'passed':8}{case.name:38}{family:6}"
                      f"{client.name + ' calls':16}{seconds:6.1f} s  {problem}", flush=True)
                if said:
                    print("\n".join("        " + line for line in said.splitlines()[-40:]))
    return rows


def judge_frames(capture):
    """What is wrong with what weft sent, or nothing."""
    problems = []
    counts = icrc.check(capture)
    ours = [socket.inet_pton(family, sides.HERE[name]).hex()
            for name, family in (("IPv4", socket.AF_INET), ("IPv6", socket.AF_INET6))]
    for source in ours:
        right, wrong = counts.get(source, (0, 0))
        print(f"frames of weft from {source}: {right} with a right ICRC, {wrong} with a wrong one")
        if wrong:
            problems.append(f"{wrong} frames of {source} have a wrong ICRC")
    if not any(counts.get(source, (0, 0))[0] for source in ours):
        problems.append("weft sent no frame at all")
    if shutil.which("tshark"):
        words = ["tshark", "-r", str(capture), "-Y", MALFORMED]
        for guess in GUESSES:
            words += ["--disable-protocol", guess]
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
    parser.add_argument("--quick", action="store_true", help="a few cases")
    parser.add_argument("--peer", choices=("rxe", "weft"), default="rxe")
    parser.add_argument("--faults", help="as `weft run` takes them, for weft's side")
    parser.add_argument("--tools", type=pathlib.Path, default=pathlib.Path("build/interop"),
                        help="for the kernel and what is built; kept")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="a copy of the capture")
    return parser.parse_args()


def play(asked, chosen, tools, folder):
    """The rows, and what is wrong with the frames."""
    trial = build_trial(tools)
    options = ("--faults", asked.faults, "--seed", "7") if asked.faults else ()
    weft = (asked.weft.resolve(), folder, tools, options)
    if asked.peer == "weft":
        there = sides.OtherWeftSide(*weft)
    else:
        kernel, image = guest_image.make(tools, [trial])
        sides.set_up_tap()
        there = sides.GuestSide(guest.Guest(kernel, image, sides.TAP, folder, sides.MTU))
    try:
        rows = run_all(chosen, sides.WeftSide(*weft), there)
    finally:
        there.close()
    if asked.peer == "weft":  # what leaves a veth is not cut into frames yet
        return rows, []
    if asked.keep:
        shutil.copy(there.machine.capture, asked.keep)
    return rows, judge_frames(there.machine.capture)


def main():
    asked = arguments()
    tools = asked.tools.resolve() / "rxe"
    tools.mkdir(parents=True, exist_ok=True)
    if asked.peer == "rxe":
        guest_image.unpack_kernel(tools)  # a namespace of our own has no way out to fetch it
    enter_namespace()
    processes.adopt_orphans()
    chosen = [case for case in cases.CASES
              if asked.only in case.name and (case.quick or not asked.quick)
              and (case.survives_loss() or not asked.faults)]
    with tempfile.TemporaryDirectory(prefix="weft-rxe-") as folder:
        rows, problems = play(asked, chosen, tools, folder)
    failed = sum(bool(row["problem"]) for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} passed" + "".join("; " + p for p in problems))
    if asked.json:
        asked.json.write_text(json.dumps({"cases": rows, "problems": problems}, indent=1) + "\n")
    return 1 if failed or problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
