"""Sums what ctest wrote about each preset, and ends with the line `N passed, N failed`.

The argument is a file with one line per preset: its name, `ok` or `bad`, and the seconds it took.
Fails when a test failed, when a preset did not end well, and when nothing ran."""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree


SHARD = re.compile(r"unit\.unit_\w+\.\d+$")  # as tests/CMakeLists.txt names them


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


def outcomes_of_shard(case, folder):
    """(outcome, name) of each test that one process ran, as googletest wrote them. A process that
    ended before it could write them has failed, and so has one that failed without saying why."""
    name, report = case.get("name"), folder / f"{case.get('name')}.xml"
    if not report.exists():
        return [("failed", f"{name}: it ended before its last test")]
    found = []
    for test in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if test.get("result") == "suppressed":
            continue  # another shard's
        kind = "failed" if test.find("failure") is not None else \
            "skipped" if test.get("result") == "skipped" else "passed"
        found.append((kind, f"{name}: {test.get('classname')}.{test.get('name')}"))
    if outcome(case) == "failed" and all(kind != "failed" for kind, _ in found):
        found.append(("failed", f"{name}: at its end"))
    return found


def describe(counts):
    text = f"{counts['passed']} passed, {counts['failed']} failed"
    return text + (f", {counts['skipped']} skipped" if counts["skipped"] else "")


def read(status_file, name, status):
    """The counts of one preset, and the names behind failures and skips."""
    report = status_file.parent / name / "junit.xml"
    if not report.exists():
        return collections.Counter(failed=1), ["failed: the build, or the start of the tests"]
    counts, names = collections.Counter(), []
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if SHARD.match(case.get("name")) and outcome(case) != "skipped":
            found = outcomes_of_shard(case, report.parent / "shards")
        else:
            found = [(outcome(case), case.get("name"))]
        counts.update(kind for kind, _ in found)
        names += [f"{kind}: {text}" for kind, text in found if kind != "passed"]
    if status != "ok" and not counts["failed"]:
        counts["failed"] = 1
        names.append("failed: ctest itself, see ctest.log")
    return counts, names


def main():
    status_file = pathlib.Path(sys.argv[1])
    total, seconds_in_all = collections.Counter(), 0
    for line in status_file.read_text().splitlines():
        name, status, seconds = line.split()
        counts, names = read(status_file, name, status)
        print(f"{name:10} {describe(counts):40} {seconds:>5} s")
        for text in names:
            print(f"           {text}")
        seconds_in_all += int(seconds)
        total += counts
    print(f"{'in all':10} {'':40} {seconds_in_all:5} s")
    print(describe(total))
    sys.exit(1 if total["failed"] or not total["passed"] else 0)


main()
