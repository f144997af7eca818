"""Checks the model of the channel protocol with spin: its properties hold, and each of a list of
mistakes, made in a copy of the model, is found. A model that finds no mistake proves nothing."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# name, what the model is compiled with, how the verifier is compiled, and how it is run
SAFETY = (["-DSAFETY", "-DCOLLAPSE"], [])
PROOFS = [
    ("one direction, with crashes", [], *SAFETY),
    ("both directions at once", ["-DBOTH", "-DCALM", "-DMESSAGES=2", "-DMOVES=1"], *SAFETY),
    ("everything is delivered", ["-DLIVE", "-DCALM"], ["-DNFAIR=4"], ["-a", "-f"]),
]
MISTAKES = [
    ("revoking does not wait for writes under way",
     r"\(dir\[d\]\.flight != r \+ 1 \|\| dead\[d\]\)", "skip"),
    ("the small ring is revoked with the request",
     r"     :: kind == MOVE ->", "     :: kind == MOVE -> dir[d].ring[current].key = false;"),
    ("an answer to an older request is acted on",
     r"dir\[d\]\.answer == GRANTED && dir\[d\]\.answer_number == number",
     "dir[d].answer == GRANTED"),
    ("the sender moves without a last word",
     r"     post\(LAST, current, target\);", "     skip;"),
    ("room is counted twice", r"     dir\[d\]\.in_use--", "     skip"),
    ("the sender stays in the ring that it said it left",
     r"     current = target;", "     skip;"),
]


def verify(text, define, compile_with, run_with):
    """Gives the number of errors that the verifier found, and its output."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "channel.pml"
        path.write_text(text)
        for command in (["spin", "-a", *define, path.name],
                        ["cc", "-O2", "-w", "-DMEMLIM=1500", *compile_with, "-o", "pan", "pan.c"]):
            run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if run.returncode:
                sys.exit(f"{' '.join(command)} failed:\n{run.stdout}{run.stderr}")
        run = subprocess.run(["./pan", "-m100000", *run_with], cwd=folder, capture_output=True,
                             text=True, check=False, timeout=250)
    errors = re.search(r"errors: (\d+)", run.stdout)
    unfinished = "Search not completed" in run.stdout and errors and errors.group(1) == "0"
    if not errors or unfinished:
        sys.exit(f"the verifier did not finish:\n{run.stdout}{run.stderr}")
    return int(errors.group(1)), run.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path,
                        default=pathlib.Path(__file__).with_name("channel.pml"))
    text = parser.parse_args().model.read_text()
    bad = 0
    for name, define, compile_with, run_with in PROOFS:
        errors, output = verify(text, define, compile_with, run_with)
        states = re.search(r"(\d+) states, stored", output).group(1)
        print(f"{'holds' if not errors else 'FAILS'}: {name} ({states} states)")
        if errors:
            print(output)
            bad += 1
    for name, pattern, replacement in MISTAKES:
        changed, count = re.subn(pattern, replacement, text)
        if count != 1:
            sys.exit(f"the mistake '{name}' does not fit the model any more")
        errors, _ = verify(changed, [], *SAFETY)
        print(f"{'found' if errors else 'MISSED'}: {name}")
        bad += not errors
    sys.exit(1 if bad else 0)


main()
