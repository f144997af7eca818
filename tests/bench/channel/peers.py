"""Channels beside their peers: `peers.py BIN_FOLDER [ROUNDS] [--only PART] [--json FILE]`. Baselines:
the same library with fixed largest buffers, and UCX over shared memory. Both take short turns, one
right behind the other, first and second in turns: the machine's phases, in which a cache line takes
four times as long to travel, meet both. What counts is the median of the turns' ratios."""

import argparse
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "same_host"))

import commands  # noqa: E402
import contestants  # noqa: E402

UCT = ["-x", "posix", "-d", "memory"]
KIB, MIB = contestants.KIB, contestants.MIB
UCX_TESTS = [
    ("latency", ["-t", "tag_lat"], 8, 3000, contestants.LATENCY),
    ("latency", ["-t", "am_lat", *UCT], 8, 3000, contestants.LATENCY),
    ("rate", ["-t", "tag_bw"], 8, 20000, contestants.RATE),
    ("rate", ["-t", "ucp_am_bw"], 8, 20000, contestants.RATE),
    ("rate", ["-t", "am_bw", *UCT], 8, 20000, contestants.RATE),
    ("64 KiB", ["-t", "tag_bw"], 64 * KIB, 256, contestants.BANDWIDTH),
    ("1 MiB", ["-t", "tag_bw"], MIB, 64, contestants.BANDWIDTH),
]
ROWS = [  # name in `weft bench channel --json`, which peers, share of the best peer, lower is better
    ("8 B one way, growing", "latency", 0.8, True),
    ("8 B one way, fixed", "latency", 0.8, True),
    ("8 B messages, growing", "rate", 2, False),
    ("8 B messages, fixed", "rate", 2, False),
    ("8 B messages in batches, growing", "rate", 2, False),
    ("8 B messages in batches, fixed", "rate", 2, False),
    ("64 KiB stream, heap memory", "64 KiB", 0.95, False),
    ("64 KiB stream, heap memory, third phase", "64 KiB", 0.95, False),
    ("64 KiB stream, arena memory", "64 KiB", 1.2, False),
    ("1024 KiB stream, heap memory", "1 MiB", 0.95, False),
    ("1024 KiB stream, arena memory", "1 MiB", 1.2, False),
]


# Part of `weft bench channel`, the kinds of its peers, turns in a round.
PARTS = [("latency_8", ["latency"], 5), ("rate_8", ["rate"], 1), ("stream", ["64 KiB", "1 MiB"], 1)]


def ours(weft, part):
    """name -> (median, unit) of one run of a part."""
    text = commands.output_of([weft, "bench", "channel", "--json", "--only", part])
    return {row["name"].removeprefix("channel: "): (row["median"], row["unit"])
            for row in json.loads(text)}


def theirs(kinds):
    """(kind, name of the test) -> its figure."""
    found = {}
    for test in UCX_TESTS:
        kind, arguments = test[0], test[1]
        tool = contestants.Ucx(lambda: 0, test)
        if kind not in kinds or tool.lacks:
            continue
        try:
            found[kind, "ucx " + arguments[1]] = tool.measure()
        except commands.Failed as error:
            print(f"ucx {arguments[1]}: {error}", file=sys.stderr)
    return found


def take_turn(weft, part, kinds, first):
    """What we and they got, one right behind the other."""
    if first:
        mine = ours(weft, part)
        return mine, theirs(kinds)
    peers = theirs(kinds)
    return ours(weft, part), peers


def compare(turns, name, kind, lower):
    """One row: our figure beside that of the best peer."""
    samples = [mine[name][0] for mine, _ in turns if name in mine]
    if not samples:
        return None
    row = {"name": "channel: " + name, "unit": turns[0][0][name][1],
           "median": statistics.median(samples), "min": min(samples), "max": max(samples),
           "n": len(samples), "best_peer": "not installed", "best_peer_median": None,
           "ratio_to_peer": None}
    medians = {}
    for key in {key for _, peers in turns for key in peers if key[0] == kind}:
        medians[key] = statistics.median(peers[key] for _, peers in turns if key in peers)
    if medians:
        best = (min if lower else max)(medians, key=medians.get)
        ratios = [mine[name][0] / peers[best] for mine, peers in turns
                  if name in mine and best in peers]
        row |= {"best_peer": best[1], "best_peer_median": medians[best],
                "ratio_to_peer": statistics.median(ratios), "ratios": sorted(ratios)}
    return row


def show(row, bar):
    text = "no peer installed"
    if row["ratio_to_peer"] is not None:
        text = (f"{row['best_peer']} {row['best_peer_median']:8.3f}  x {row['ratio_to_peer']:5.2f} "
                f"(bar {bar}, {'ok' if row['ok'] else 'NOT'}; "
                f"{row['ratios'][0]:.2f} to {row['ratios'][-1]:.2f})")
    name = row["name"].removeprefix("channel: ")
    print(f"{name:<36} {row['median']:8.3f} {row['unit']:<5} {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_folder", type=pathlib.Path)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--only", choices=[part for part, _, _ in PARTS])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    weft = str(options.bin_folder / "weft")
    turns = {part: [] for part, _, _ in PARTS}
    for _ in range(options.rounds):
        for part, kinds, count in PARTS:
            for _ in range(count if options.only in (None, part) else 0):
                turns[part].append(take_turn(weft, part, kinds, len(turns[part]) % 2 == 0))
    rows = []
    for name, kind, bar, lower in ROWS:
        part = next(part for part, kinds, _ in PARTS if kind in kinds)
        row = compare(turns[part], name, kind, lower)
        if row is None:
            continue
        ratio = row["ratio_to_peer"]
        row |= {"bar": bar, "ok": None if ratio is None else
                (ratio <= bar if lower else ratio >= bar)}
        show(row, bar)
        rows.append(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
