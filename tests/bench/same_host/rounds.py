"""Runs all contestants of the same-host comparison in turn, in rounds, each round in another order,
and writes their samples as JSON for scripts/collect_bench.py. What the machine does to one
contestant it does to the others in the same round."""

import argparse
import json
import pathlib
import random
import time

import commands
import contestants


def play(contestant, result):
    """One turn. A contestant that fails is noted, and does not stop the others."""
    try:
        samples, reason = contestant.run()
    except commands.Failed as failure:
        samples, reason = [], str(failure)
    result["samples"] += samples
    if reason:
        noted = result["failures"].setdefault(contestant.name, {"times": 0})
        noted["times"] += 1
        noted["reason"] = reason.splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path, help="folder of same_host and mpi_peer.*")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=110, help="begin no round after this time")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these contestants alone")
    args = parser.parse_args()

    everybody = contestants.all_of_them(args.bin)
    result = {"samples": [], "failures": {}, "rounds": 0,
              "missing": {c.name: c.lacks for c in everybody if c.lacks}}
    present = [c for c in everybody if not c.lacks and (not args.only or c.name in args.only)]
    begun = time.monotonic()
    while result["rounds"] < args.rounds and time.monotonic() - begun < args.seconds:
        random.Random(result["rounds"]).shuffle(present)
        for contestant in present:
            play(contestant, result)
        result["rounds"] += 1
        print(f"  round {result['rounds']}, {time.monotonic() - begun:.0f} s", flush=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")


main()
