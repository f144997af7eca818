"""Checks the models of the channel protocol with spin: their properties hold, and each of a list of
mistakes, made in a copy of the model, is found. A model that finds no mistake proves nothing."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# name, what the model is compiled with, how the verifier is compiled, and how it is run
SAFETY = (["-DSAFETY", "-DCOLLAPSE"], [])
GROWTH_PROOFS = [
    ("one direction, with crashes", [], *SAFETY),
    ("both directions at once", ["-DBOTH", "-DCALM", "-DMESSAGES=2", "-DMOVES=1"], *SAFETY),
    ("everything is delivered", ["-DLIVE", "-DCALM"], ["-DNFAIR=4"], ["-a", "-f"]),
]
GROWTH_MISTAKES = [
    ("revoking does not wait for writes under way",
     r"\(dir\[d\]\.flight != r \+ 1 \|\| dead\[d\]\)", "skip"),
    ("the small ring is revoked with the request",
     r"     :: kind == MOVE ->", "     :: kind == MOVE -> dir[d].ring[current].key = false;"),
    ("an answer to an older request is acted on",
     r"dir\[d\]\.answer == GRANTED && dir\[d\]\.answer_number == number",
     "dir[d].answer == GRANTED"),
    ("the sender moves without a last word",
     r"     post\(LAST, current, target\);", "     skip;"),
    ("the sender does not wait for room",
     r"#define ROOM\(d\) .*", "#define ROOM(d) (true)"),
    ("room is counted twice", r"     dir\[d\]\.in_use--", "     skip"),
    ("the sender stays in the ring that it said it left",
     r"     current = target;", "     skip;"),
]
LOAN_PROOFS = [
    ("loans, recalls and deadlines", [], *SAFETY),
    ("every loan ends", ["-DLIVE"], ["-DNFAIR=4"], ["-a", "-f"]),
]
LOAN_MISTAKES = [
    ("the owner has no fence between closing a key and looking who is inside",
     r"  fence_of_owner\(i\);\n", ""),
    ("the owner does not wait for who is inside", r"  \(flight != i \+ 1\);", "  skip;"),
    ("the reader has no fence before it looks at the key", r"        fence_of_reader\(\);\n", ""),
    ("the reader goes by its look before the fence",
     r"        fence_of_reader\(\);\n        live = loan\[i\]\.key;\n", "        fence_of_reader();\n"),
    ("the memory is the application's before the key is closed",
     r"  close_key\(i\);\n  atomic \{ (.*) \}\n", r"  atomic { \1 };\n  close_key(i)\n"),
    ("what was taken back and had been read goes unnoticed",
     r"pulled > i && !left\[i\] -> lost = true", "pulled > i && !left[i] -> skip"),
    ("that an offer is done with and that it was left come apart",
     r"atomic \{ left\[i\] = true; pulled\+\+ \}", "pulled++; left[i] = true"),
]
MODELS = [("channel.pml", GROWTH_PROOFS, GROWTH_MISTAKES), ("loan.pml", LOAN_PROOFS, LOAN_MISTAKES)]


def verify(text, define, compile_with, run_with):
    """Gives the number of errors that the verifier found, and its output."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.pml"
        path.write_text(text)
        # Optimising the verifier takes ten times as long as it then runs.
        for command in (["spin", "-a", *define, path.name],
                        ["cc", "-O0", "-w", "-DMEMLIM=1500", *compile_with, "-o", "pan", "pan.c"]):
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


def check(text, proofs, mistakes):
    """Gives how many proofs failed and mistakes were missed."""
    bad = 0
    for name, define, compile_with, run_with in proofs:
        errors, output = verify(text, define, compile_with, run_with)
        states = re.search(r"(\d+) states, stored", output).group(1)
        print(f"{'holds' if not errors else 'FAILS'}: {name} ({states} states)")
        if errors:
            print(output)
            bad += 1
    for name, pattern, replacement in mistakes:
        changed, count = re.subn(pattern, replacement, text)
        if count != 1:
            sys.exit(f"the mistake '{name}' does not fit the model any more")
        errors, _ = verify(changed, [], *SAFETY)
        print(f"{'found' if errors else 'MISSED'}: {name}")
        bad += not errors
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    folder = parser.parse_args().folder
    bad = sum(check((folder / name).read_text(), proofs, mistakes)
              for name, proofs, mistakes in MODELS)
    sys.exit(1 if bad else 0)


main()
