"""Runs rdma-core's own tests, from a copy of its tests/ folder, under `weft run`, and sums them.
Counted are the generic ones; those for one vendor's devices or for GPUs are only said to exist.

    suite.py --weft build/bin/weft --json build/rdma-core-tests.json PATH-TO-RDMA-CORE"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

import processes

# Debian's pyverbs belongs to Debian's python.
PYTHON = "/usr/bin/python3"
TIMEOUT_S = 900
VENDOR = re.compile(r"^tests\.test_(mlx5|efa|cuda)|_dmabuf\b")
# Some tests map huge pages, which most machines keep none of.
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
WANTED_HUGE_PAGES = 8
# "test_x (tests.test_y.Class.test_x)", perhaps with a line of words between, then "... outcome".
NAME = re.compile(r"^(test\w*) \((tests\.[\w.]+)\)")
OUTCOME = re.compile(r"(ok|FAIL|ERROR|expected failure|skipped ['\"](.*)['\"])$")
KINDS = {"ok": "passed", "expected failure": "passed", "FAIL": "failed", "ERROR": "failed"}


def parse(output):
    """{test: (status, reason)} from unittest's words."""
    results, current = {}, None
    for line in output.splitlines():
        named = NAME.match(line)
        if named:
            current = named.group(2)
            if not current.endswith(named.group(1)):  # before Python 3.11
                current += "." + named.group(1)
        said = OUTCOME.search(line)
        if current and said and ("..." in line or OUTCOME.fullmatch(line)):
            word = said.group(1)
            results[current] = (KINDS.get(word, "skipped"), said.group(2) or "")
            current = None
        elif line.startswith("====="):
            break  # the tracebacks
    return results


def is_generic(test):
    return not VENDOR.search(test)


def total_of(output):
    found = re.search(r"^Ran (\d+) tests", output, re.MULTILINE)
    return int(found.group(1)) if found else 0


def version_of(source):
    """rdma-core's version, from the source tree where it has the file, or ''."""
    path = pathlib.Path(source) / "CMakeLists.txt"
    found = path.exists() and re.search(r'PACKAGE_VERSION "([\d.]+)"', path.read_text())
    return found.group(1) if found else ""


@contextlib.contextmanager
def some_huge_pages(at=HUGE_PAGES):
    """Reserved for this long, where we may: without them the tests skip, and say so."""
    try:
        before = at.read_text()
        if int(before) >= WANTED_HUGE_PAGES:
            before = None
        else:
            at.write_text(f"{WANTED_HUGE_PAGES}\n")
    except OSError:
        before = None
    try:
        yield
    finally:
        if before is not None:
            at.write_text(before)


def run(source, weft):
    """Unittest's output, and the exit status; None when it did not end."""
    with tempfile.TemporaryDirectory(prefix="weft-suite-") as folder:
        copy = pathlib.Path(folder) / "tests"  # the tests import each other by this name
        shutil.copytree(pathlib.Path(source) / "tests", copy)
        processes.adopt_orphans()
        words = [str(weft), "run", "--", PYTHON, "run_tests.py", "--dev", "weft0", "-v"]
        with some_huge_pages():
            program = processes.Program(words, copy, "suite", dict(os.environ, LC_ALL="C.UTF-8"))
            program.wait(time.monotonic() + TIMEOUT_S)
            status = program.status()
            processes.end_all([program])
        return program.output(), status


def sum_up(results, source):
    generic = {test: result for test, result in results.items() if is_generic(test)}
    counts = collections.Counter(status for status, _ in generic.values())
    reasons = collections.Counter(reason for status, reason in generic.values()
                                  if status == "skipped")
    return {"version": version_of(source), "generic": len(generic),
            "vendor": len(results) - len(generic), "passed": counts["passed"],
            "failed": counts["failed"], "skipped": counts["skipped"],
            "failures": sorted(t for t, (status, _) in generic.items() if status == "failed"),
            "skip_reasons": dict(sorted(reasons.items()))}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a source tree of rdma-core, of the version of pyverbs")
    parser.add_argument("--weft", type=pathlib.Path, default=pathlib.Path("build/bin/weft"))
    parser.add_argument("--json", type=pathlib.Path)
    asked = parser.parse_args()
    if not (pathlib.Path(asked.source) / "tests" / "run_tests.py").exists():
        sys.exit(f"{asked.source} has no tests/run_tests.py")
    output, status = run(asked.source, asked.weft.resolve())
    results = parse(output)
    summary = sum_up(results, asked.source)
    problems = []
    if status is None or status < 0:
        problems.append("the suite " + processes.describe(status))
    if len(results) != total_of(output) or not summary["passed"]:
        problems.append(f"{len(results)} outcomes were read of {total_of(output)} tests")
    if problems or summary["failed"]:
        print(output)
    for reason, count in summary["skip_reasons"].items():
        print(f"  {count:3} skipped: {reason}")
    for test in summary["failures"]:
        print(f"  failed: {test}")
    print("\n".join(problems))
    print(f"of {summary['generic']} generic tests: {summary['passed']} passed, "
          f"{summary['failed']} failed, {summary['skipped']} skipped "
          f"({summary['vendor']} others are for one vendor's devices)")
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if problems or summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
