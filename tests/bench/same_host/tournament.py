"""Lets contestants play in turn, in rounds, each round in another order: what the machine does to one it does
to the others in the same round. The samples go to a file as JSON for scripts/collect_bench.py."""

import json
import random
import time

import commands


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


def run(everybody, out, *, rounds, seconds, only=None, missing=None):
    """Begins no round after so many seconds. `missing`: what else is not there, and why."""
    result = {"samples": [], "failures": {}, "rounds": 0,
              "missing": {c.name: c.lacks for c in everybody if c.lacks} | (missing or {})}
    present = [c for c in everybody if not c.lacks and (not only or c.name in only)]
    begun = time.monotonic()
    while result["rounds"] < rounds and time.monotonic() - begun < seconds:
        random.Random(result["rounds"]).shuffle(present)
        for contestant in present:
            play(contestant, result)
        result["rounds"] += 1
        print(f"  round {result['rounds']}, {time.monotonic() - begun:.0f} s", flush=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
