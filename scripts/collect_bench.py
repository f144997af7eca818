"""Turns the reports of Google Benchmark (a folder of JSON files) into one array of rows, as
build/bench.json, and prints them as a table. A row's label may name what it is compared with:
"limit=<row, or nanoseconds> bar=<ratio to reach>"; the ratio is limit / median, so 1.0 is the limit
itself and more is better; "plus=<nanoseconds>" is added to the limit. Those rows have no peer, so its fields are null. The rows of the same-host
comparison (samples in same_host/samples.json) come from same_host_rows.py; there the bar is on the
ratio to the best peer where the row names one, else on the ratio to the limit. Those of the programs
that sleep (sleeping/samples.json) come from sleeping_rows.py, those of channels
(channel/samples.json) from channel_rows.py."""

import json
import pathlib
import statistics
import sys

import channel_rows
import same_host_rows
import sleeping_rows

FIELDS = ("name", "size", "unit", "median", "min", "max", "n", "best_peer", "best_peer_median",
          "limit", "limit_median", "ratio_to_peer", "ratio_to_limit", "bar", "ok")

GROUPS = (("same_host", "of this host", same_host_rows), ("network", "over UDP", same_host_rows),
          ("sleeping", "that sleep until a message comes", sleeping_rows),
          ("channel", "that use channels", channel_rows))


def rows_of(report):
    samples = {}
    for run in report["benchmarks"]:
        if run.get("run_type") == "iteration" and not run.get("error_occurred"):
            samples.setdefault(run["run_name"], []).append(run)
    for name, runs in samples.items():
        times = [run["real_time"] for run in runs]
        label = dict(part.split("=") for part in runs[0].get("label", "").split())
        row = dict.fromkeys(FIELDS)
        row |= {"name": name, "size": runs[0].get("size"), "unit": runs[0]["time_unit"],
                "median": statistics.median(times), "min": min(times), "max": max(times),
                "n": len(times), "limit": label.get("limit")}
        row["bar"] = float(label["bar"]) if "bar" in label else None
        row["plus"] = float(label.get("plus", 0))
        yield row


def compare(rows):
    medians = {row["name"]: row["median"] for row in rows}
    for row in rows:
        plus = row.pop("plus")
        if row["limit"] is None:
            continue
        limit = medians.get(row["limit"])
        row["limit_median"] = (float(row["limit"]) if limit is None else limit) + plus
        row["ratio_to_limit"] = row["limit_median"] / row["median"]
        row["ok"] = row["ratio_to_limit"] >= row["bar"]


def table(rows):
    yield f"{'row':<24}{'median':>12}{'min':>12}{'max':>12}  {'limit':<16}{'ratio':>7}{'bar':>6}  ok"
    for row in rows:
        line = f"{row['name']:<24}"
        line += "".join(f"{row[k]:>12.1f}" for k in ("median", "min", "max"))
        if row["limit"] is not None:
            line += (f"  {row['limit']:<16}{row['ratio_to_limit']:>7.2f}{row['bar']:>6.2f}"
                     f"  {'yes' if row['ok'] else 'NO'}")
        yield line + ("" if row["unit"] == "ns" else f"  ({row['unit']})")


def main():
    folder, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rows = [row for path in sorted(folder.glob("*.json"))
            for row in rows_of(json.loads(path.read_text()))]
    compare(rows)
    if rows:
        print("\nnanoseconds, medians of interleaved repetitions; ratio = limit / median\n")
        print("\n".join(table(rows)))

    for place, where, maker in GROUPS:
        samples = folder / place / "samples.json"
        if not samples.exists():
            continue
        result = json.loads(samples.read_text())
        between = maker.rows_of(FIELDS, result, place)
        print(f"\nbetween two processes {where}, medians of interleaved rounds; ratios: more is "
              "better\n")
        print("\n".join([*maker.table(between), *maker.remarks(result)]))
        rows += between
    if not rows:
        sys.exit("no benchmark ran")
    target.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"\n{len(rows)} rows in {target}")


main()
