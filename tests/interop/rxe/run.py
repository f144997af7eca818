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
PORTS_A_CASE = 20  # channel_pair takes one for each kind of settings
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
SETTLE_S = 0.2  # between a port that is taken and a server that listens
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
        if case.server:
            server = start("server", server_side, case.server)
            await_server(case, server_side, server, port, until)
        start("client", client_side, case.client)
        end_well("client", case.expect, until)
        if case.server:
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
            both = ((there, here), (here, there)) if case.server else ((there, there),)
            for server, client in both:
                if case.quick_server and server.is_slow:
                    continue
                port += PORTS_A_CASE
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


def malformed_frames(lines):
    """Those of tshark's that are wrong themselves: what follows `infiniband` in the list of protocols
    is a guess, by port or first bytes, at what is in a message."""
    return [line for line in lines if not re.search(r":infiniband:", line)]


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
        words = ["tshark", "-r", str(capture), "-Y", MALFORMED, "-T", "fields",
                 "-e", "frame.number", "-e", "frame.protocols"]
        said = subprocess.run(words, capture_output=True, text=True).stdout
        wrong = malformed_frames(said.splitlines())
        print(f"tshark finds {len(wrong)} malformed packets")
        if wrong:
            problems.append("tshark: frame " + wrong[0])
    else:
        problems.append("tshark is not installed")
    return problems


def build_trial(folder):
    target = folder / "trial"
    subprocess.run(["gcc", "-std=gnu11", "-O1", str(HERE / "trial.c"), "-o", str(target),
                    "-libverbs"], check=True)
    return target


def channel_programs(tools, weft):
    """The programs of channels, of which `make build` makes one."""
    root, libraries = HERE.parents[2], weft.parent.parent / "lib"
    sources = {"channel_cases": sorted((root / "tests/system").glob("channel_*cases.cc")),
               "channel_pair": [HERE / "channel_pair.cc"],
               sides.TRACER: [root / "tests/system/verbs_tracer.cc"]}
    linked = [libraries / "libweft_channel.a", libraries / "libweft_base.a", "-libverbs",
              "-lrdmacm", "-lfmt", "-ldl"]
    needed = [*linked[:2], *root.glob("include/weft/*.h"), *root.glob("src/channel/*.h"),
              *root.glob("tests/s*/*.h"), *(file for files in sources.values() for file in files)]
    newest = max(path.stat().st_mtime for path in needed)
    for name, files in sources.items():
        if (tools / name).exists() and (tools / name).stat().st_mtime > newest:
            continue
        shared = ["-shared", "-fPIC"] if name.endswith(".so") else []
        subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", *shared,
                        *(f"-I{root / folder}" for folder in ("include", "src", "tests")),
                        *files, "-o", tools / name, *linked], check=True)
    return [*(tools / name for name in sources), weft.parent / "weft-channel"]


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
    asked = parser.parse_args()
    if not any(asked.only in case.name for case in cases.CASES):
        names = ", ".join(dict.fromkeys(case.name for case in cases.CASES))
        parser.error(f"--only: no case's name contains '{asked.only}'; there are {names}")
    return asked


def play(asked, chosen, tools, folder):
    """The rows, and what is wrong with the frames."""
    programs = [build_trial(tools)]
    if any("channel" in case.client for case in chosen):
        programs += channel_programs(tools, asked.weft.resolve())
    options = ("--faults", asked.faults, "--seed", "7") if asked.faults else ()
    weft = (asked.weft.resolve(), folder, tools, options)
    if asked.peer == "weft":
        there = sides.OtherWeftSide(*weft)
    else:
        kernel, image = guest_image.make(tools, programs)
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
    with_weft = any(case.server for case in chosen)
    return rows, judge_frames(there.machine.capture) if with_weft else []


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
              and (case.survives_loss() or not asked.faults)
              and (asked.peer == "weft" or not case.weft_only)]
    with tempfile.TemporaryDirectory(prefix="weft-rxe-") as folder:
        rows, problems = play(asked, chosen, tools, folder)
    failed = sum(bool(row["problem"]) for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} passed" + "".join("; " + p for p in problems))
    if asked.json:
        asked.json.write_text(json.dumps({"cases": rows, "problems": problems}, indent=1) + "\n")
    return 1 if failed or problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
