"""Sums what ctest wrote about each preset, and ends with the line `N passed, N failed`.

The argument is a file with one line per preset: its name, `ok` or `bad`, and the seconds it took.
Fails when a test failed, when a preset did not end well, and when nothing ran."""

import pathlib
import sys
import xml.etree.ElementTree


def outcome(case):
    """passed, failed or skipped. A test whose program is missing has failed, whatever ctest's
    report calls it."""
    if case.get("status") == "run":
        return "passed"
    skipped = case.find("skipped")
    reason = skipped.get("message", "") if skipped is not None else ""
    if case.get("status") == "disabled" or reason.startswith("SKIP_"):
        return "skipped"
    return "failed"


def describe(counts):
    text = f"{counts['passed']} passed, {counts['failed']} failed"
    return text + (f", {counts['skipped']} skipped" if counts["skipped"] else "")


def read(status_file, name, status):
    """The counts of one preset, and the names behind failures and skips."""
    counts, names = {"passed": 0, "failed": 0, "skipped": 0}, []
    report = status_file.parent / name / "junit.xml"
    if not report.exists():
        counts["failed"] = 1
        return counts, ["failed: the build, or the start of the tests"]
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        kind = outcome(case)
        counts[kind] += 1
        if kind != "passed":
            names.append(f"{kind}: {case.get('name')}")
    if status != "ok" and not counts["failed"]:
        counts["failed"] = 1
        names.append("failed: ctest itself, see ctest.log")
    return counts, names


def main():
    status_file = pathlib.Path(sys.argv[1])
    total, seconds_in_all = {"passed": 0, "failed": 0, "skipped": 0}, 0
    for line in status_file.read_text().splitlines():
        name, status, seconds = line.split()
        counts, names = read(status_file, name, status)
        print(f"{name:10} {describe(counts):40} {seconds:>5} s")
        for text in names:
            print(f"           {text}")
        seconds_in_all += int(seconds)
        total = {kind: total[kind] + counts[kind] for kind in total}
    print(f"{'in all':10} {'':40} {seconds_in_all:5} s")
    print(describe(total))
    sys.exit(1 if total["failed"] or not total["passed"] else 0)


main()
