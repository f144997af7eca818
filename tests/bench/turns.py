"""Compares two builds: `turns.py OLD_BIN NEW_BIN [--rounds N]`. Each measurement is taken by the old
binaries, then by the new ones, in the next round the other way about, so that both meet the same
phases of the machine. Prints, for each row, the median of the rounds' ratios (above 1: the new one
is better) and how many rounds it is of. Ends with 1 if a row is worse by more than --tolerance."""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "same_host"))
import contestants  # noqa: E402  pylint: disable=wrong-import-position

LOWER_IS_BETTER = {"us", "ns", "s"}
# program, arguments
PARTS = [("same_host", ["weft"]),
         *[("network_pair", [part]) for part in ("weft_latency", "weft_rate", "weft_stream", "weft_sends")],
         ("bench_data_path", None), ("bench_shim", None), ("weft", ["bench", "channel", "--json"])]
BOUND_S = 180


def samples_of(program, arguments, text):
    """name -> (value, whether lower is better)"""
    if program == "weft":
        rows = json.loads(text)
        return {f"channel/{row['name']}": (row["median"], row["unit"] in LOWER_IS_BETTER)
                for row in (rows["rows"] if isinstance(rows, dict) else rows)}
    if arguments is None:  # Google Benchmark
        found = {}
        for run in json.loads(text)["benchmarks"]:
            if run["run_type"] != "iteration":
                continue
            found.setdefault(run["name"], []).append(run["cpu_time"])
        return {name: (statistics.median(values), True) for name, values in found.items()}
    found = {}
    for sample in contestants.samples_in(text):
        if sample["name"].startswith("weft"):
            name = f"{sample['name']} {sample['size']}"
            found[name] = (sample["value"], sample["unit"] in LOWER_IS_BETTER)
    return found


def measure(folder, program, arguments):
    if arguments is None:
        arguments = ["--benchmark_min_time=0.05", "--benchmark_repetitions=3", "--benchmark_format=json",
                     "--benchmark_enable_random_interleaving=true"]
    run = subprocess.run([folder / program, *arguments], capture_output=True, text=True,
                         timeout=BOUND_S, check=False)
    return samples_of(program, arguments if "=" not in " ".join(arguments) else None, run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=0.03)
    parser.add_argument("--only", help="rows that match this expression, and the programs named so")
    args = parser.parse_args()
    ratios = {}
    for number in range(args.rounds):
        for program, arguments in PARTS:
            if args.only and not re.search(args.only, " ".join([program, *(arguments or [])])):
                continue
            sides = [("old", args.old.resolve()), ("new", args.new.resolve())]
            taken = {side: measure(folder, program, arguments)
                     for side, folder in (sides if number % 2 == 0 else reversed(sides))}
            for name in taken["old"].keys() & taken["new"].keys():
                (old, lower), (new, _) = taken["old"][name], taken["new"][name]
                if old and new:
                    ratios.setdefault(name, []).append(old / new if lower else new / old)
        print(f"  round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    worse = 0
    for name, values in sorted(ratios.items()):
        median = statistics.median(values)
        bad = median < 1 - args.tolerance
        worse += bad
        print(f"{name:<52}{median:7.3f}  ({min(values):.2f} to {max(values):.2f}, n {len(values)})"
              + ("  WORSE" if bad else ""))
    return 1 if worse or not ratios else 0


if __name__ == "__main__":
    sys.exit(main())
