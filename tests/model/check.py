"""Checks models of protocols with spin: their properties hold, and each of a list of mistakes, made
in a copy of the model, is found. A model that finds no mistake proves nothing."""

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
# name, what is replaced, by what, and what the changed model is compiled with
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
FAST = (["-DSAFETY"], [])  # a state of this model is so small that compressing it gains little
WAITING_PROOFS = [
    ("the program sleeps by epoll", ["-DRECORDS=3"], *FAST),
    ("the program sleeps in our call", ["-DIN_CALL", "-DRECORDS=3"], *FAST),
    ("the helper raises the channel", ["-DBY_HELPER", "-DRECORDS=3"], *FAST),
    ("by epoll, another thread polls", ["-DOTHER"], *FAST),
    ("in our call, another thread polls", ["-DIN_CALL", "-DOTHER"], *FAST),
    ("by epoll, two peers", ["-DPEERS=2", "-DRECORDS=1"], *FAST),
    ("in our call, two peers", ["-DIN_CALL", "-DPEERS=2", "-DRECORDS=1"], *FAST),
    ("by epoll, peers fence", ["-DFENCES"], *FAST),
    ("in our call, peers fence", ["-DIN_CALL", "-DFENCES"], *FAST),
]
WAITING_MISTAKES = [
    ("whoever takes wake-ups does not ask anew",
     r":: watchers > 0 -> request_wake\(\)", ":: watchers > 0 -> skip", "-DIN_CALL"),
    ("only armed queues count as watchers, not who sleeps", r":: watchers > 0 ->", ":: armed ->",
     "-DIN_CALL"),
    ("wake-ups count as taken before they are taken out",
     r"(?s)(     d_step \{ flag = wake\[0\].*?)d_step \{ flag = false; taken = true \}",
     r"     if\n     :: ANY(wake) -> taken = true\n     :: else\n     fi;\n\1flag = false",
     "-DIN_CALL"),
    ("no barrier in the request", r"     barrier\(\)\n#endif", "     skip\n#endif"),
    ("whoever is about to sleep does not look into the rings",
     r"     flag = ANY\(ring\);", "     flag = false;"),
    ("whoever is about to sleep looks before it asks",
     r"     request_wake\(\);\n     look_only\(\);", "     look_only();\n     request_wake();"),
    ("whoever finds the rings taken sleeps all the same",
     r":: else -> flag = true", ":: else -> flag = false", "-DOTHER"),
    ("whoever has taken wake-ups and finds the rings taken calls nobody",
     r":: asleep -> called = true", ":: asleep -> skip"),
    ("the helper says that it sleeps after it has looked",
     r"(?s)     asleep = true;\n(.*?look_only\(\);\n)", r"\1     asleep = true;\n"),
    ("whoever has asked leaves with its event and does not look",
     r":: raised -> look\(\); break", ":: raised -> break", "-DIN_CALL"),
    ("the helper leaves what arrives to the program for ever",
     r"     skip  +(/\* the program's moment)", r"     (!armed) \1"),
    ("a completion on an armed queue does not raise the channel",
     r"d_step \{ raised = true; raising", "d_step { raising"),
    ("an armed queue is not counted as a watcher", r"inline arm\(\) \{\n  watchers\+\+;",
     "inline arm() {\n"),
    ("a peer does not fence when it is asked to", r":: fences -> FLUSH\(_pid\)", ":: fences",
     "-DFENCES"),
    ("no barrier in the request that begins to ask for fences", r"     :: else -> barrier\(\)",
     "     :: else", "-DFENCES"),
]
MODELS = {"channel": (GROWTH_PROOFS, GROWTH_MISTAKES), "loan": (LOAN_PROOFS, LOAN_MISTAKES),
          "waiting": (WAITING_PROOFS, WAITING_MISTAKES)}


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
    for name, pattern, replacement, *define in mistakes:
        changed, count = re.subn(pattern, replacement, text)
        if count != 1:
            sys.exit(f"the mistake '{name}' does not fit the model any more")
        errors, _ = verify(changed, define, *SAFETY)
        print(f"{'found' if errors else 'MISSED'}: {name}")
        bad += not errors
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("models", nargs="*", metavar="model", help=f"of {', '.join(MODELS)}")
    asked = parser.parse_args()
    bad = sum(check((asked.folder / f"{name}.pml").read_text(), *MODELS[name])
              for name in asked.models or MODELS)
    sys.exit(1 if bad else 0)


main()
