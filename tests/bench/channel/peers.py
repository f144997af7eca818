"""Channels beside their peers, in one run, in turns: `peers.py BIN_FOLDER [ROUNDS] [--json FILE]`.
Baselines: the same library with fixed largest buffers, and UCX over shared memory."""

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


def ours(weft):
    """The medians of one run of each measurement that has a peer."""
    found = {}
    for only in ("latency_8", "rate_8", "stream"):
        text = commands.output_of([weft, "bench", "channel", "--json", "--only", only])
        for row in json.loads(text):
            found[row["name"].removeprefix("channel: ")] = (row["median"], row["unit"])
    return found


def theirs():
    """name of the test -> its figure, for each kind."""
    found = {}
    for test in UCX_TESTS:
        kind, arguments = test[0], test[1]
        tool = contestants.Ucx(lambda: 0, test)
        if tool.lacks:
            continue
        try:
            found.setdefault(kind, {})["ucx " + " ".join(arguments[1:2])] = tool.measure()
        except commands.Failed as error:
            print(f"ucx {arguments[1]}: {error}", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_folder", type=pathlib.Path)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    weft_samples, peer_samples, units = {}, {}, {}
    for _ in range(options.rounds):
        for name, (value, unit) in ours(str(options.bin_folder / "weft")).items():
            weft_samples.setdefault(name, []).append(value)
            units[name] = unit
        for kind, tests in theirs().items():
            for name, value in tests.items():
                peer_samples.setdefault(kind, {}).setdefault(name, []).append(value)
    rows = []
    for name, kind, bar, lower in ROWS:
        if name not in weft_samples:
            continue
        median = statistics.median(weft_samples[name])
        peers = {p: statistics.median(v) for p, v in peer_samples.get(kind, {}).items()}
        best = (min if lower else max)(peers, key=peers.get) if peers else None
        ratio = median / peers[best] if best else None
        good = None if ratio is None else (ratio <= bar if lower else ratio >= bar)
        rows.append({"name": "channel: " + name, "unit": units[name], "median": median,
                     "min": min(weft_samples[name]), "max": max(weft_samples[name]),
                     "n": len(weft_samples[name]), "best_peer": best or "not installed",
                     "best_peer_median": peers.get(best), "ratio_to_peer": ratio, "bar": bar,
                     "ok": good})
        shown = f"{best} {peers[best]:8.3f}  x {ratio:5.2f} (bar {bar}, {'ok' if good else 'NOT'})" \
            if best else "no peer installed"
        print(f"{name:<36} {median:8.3f} {units[name]:<5} {shown}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
