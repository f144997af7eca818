"""Runs all contestants of the same-host comparison in turn, and writes their samples as JSON for
scripts/collect_bench.py."""

import argparse
import pathlib

import contestants
import tournament


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path, help="folder of same_host and mpi_peer.*")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=110, help="begin no round after this time")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these contestants alone")
    args = parser.parse_args()
    everybody = contestants.all_of_them(args.bin)
    names = [contestant.name for contestant in everybody]
    for name in args.only or []:
        if name not in names:
            parser.error(f"--only: '{name}' is none of {', '.join(names)}")
    tournament.run(everybody, args.out, rounds=args.rounds, seconds=args.seconds, only=args.only)


main()
