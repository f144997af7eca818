"""Turns the reports of Google Benchmark (a folder of JSON files) into one array of rows, as
build/bench.json: name, size, unit, median, min, max, n. What a row is compared with, and the bar
that it must reach, are null: nothing fills them yet."""

import json
import pathlib
import statistics
import sys

COMPARISON = ("best_peer", "best_peer_median", "limit", "limit_median", "ratio_to_peer",
              "ratio_to_limit", "bar", "ok")


def rows_of(report):
    samples = {}
    for run in report["benchmarks"]:
        if run.get("run_type") == "iteration" and not run.get("error_occurred"):
            samples.setdefault(run["run_name"], []).append(run)
    for name, runs in samples.items():
        times = [run["real_time"] for run in runs]
        yield {"name": name, "size": runs[0].get("size"), "unit": runs[0]["time_unit"],
               "median": statistics.median(times), "min": min(times), "max": max(times),
               "n": len(times), **dict.fromkeys(COMPARISON)}


def main():
    folder, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rows = [row for path in sorted(folder.glob("*.json"))
            for row in rows_of(json.loads(path.read_text()))]
    if not rows:
        sys.exit("no benchmark ran")
    target.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"\n{len(rows)} rows in {target}")


main()
