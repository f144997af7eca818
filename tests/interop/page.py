"""Writes docs/clients.md from the results that run.py and suite.py left.

    page.py build/interop.json build/rdma-core-tests.json docs/clients.md"""

import json
import pathlib
import sys

FRONT = """# Programs that run on weft

These programs were written by others, for RDMA hardware, and run unmodified under [`weft run`](reference/run.md).
"""
MEANING = """
*Skipped* means that the program is not installed or that it asks for a feature that weft does not
have ([libibverbs on weft](reference/shim.md) lists them); such a program is started all the same, and has to
end with an error of its own, not by a crash and not in a hang. [The appendix](#appendix-all-cases)
has each case."""
AGAIN = """
This page is generated: `make interop` installs the programs, runs all cases and writes it anew;
`make test` runs a quick part of them. One case by itself:

<!-- not run: needs the sources of weft, and minutes -->
```console
$ python3 tests/interop/run.py --only rping
```

rdma-core's own tests need its source, of the version of the installed python3-pyverbs:
`scripts/rdma-core-tests PATH-TO-SOURCE`, then `make interop` for the page."""
STATUSES = ("passed", "failed", "skipped")


def counts_of(rows):
    return [sum(row["status"] == status for row in rows) for status in STATUSES]


def escape(text):
    return text.replace("|", "\\|").replace("\n", " ")


def summary(cases, versions):
    yield "| programs | passed | failed | skipped |"
    yield "|---|---|---|---|"
    for client in dict.fromkeys(row["client"] for row in cases):
        numbers = counts_of([row for row in cases if row["client"] == client])
        yield f"| {client} | " + " | ".join(map(str, numbers)) + " |"
    yield "| in all | " + " | ".join(map(str, counts_of(cases))) + " |"
    yield ""
    yield "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."


def suite_part(suite):
    yield "## rdma-core's own tests"
    yield ""
    if suite is None:
        yield "Not run."
        return
    version = f" of version {suite['version']}" if suite["version"] else ""
    yield (f"Of the {suite['generic']} generic tests{version}, {suite['passed']} pass, "
           f"{suite['failed']} fail and {suite['skipped']} are skipped; {suite['vendor']} more are "
           "for one vendor's devices or for GPUs.")
    yield ""
    for test in suite["failures"]:
        yield f"- failed: `{test}`"
    if suite["failures"]:
        yield ""
    yield "| skipped | the tests' own words |"
    yield "|---|---|"
    for reason, count in suite["skip_reasons"].items():
        yield f"| {count} | {escape(reason)} |"


def details(cases):
    yield "## Appendix: all cases"
    yield ""
    yield "| programs | case | result | note |"
    yield "|---|---|---|---|"
    for row in cases:
        yield (f"| {row['client']} | `{escape(row['case'])}` | {row['status']} | "
               f"{escape(row['note'])} |")


def page(results, suite):
    cases = results["cases"]
    lines = [FRONT, *summary(cases, results["versions"]), MEANING, "", *suite_part(suite), "",
             "## To run them again", AGAIN, "", *details(cases)]
    return "\n".join(lines) + "\n"


def main():
    results, suite, target = map(pathlib.Path, sys.argv[1:])
    read_suite = json.loads(suite.read_text()) if suite.exists() else None
    target.write_text(page(json.loads(results.read_text()), read_suite))
    return 0


if __name__ == "__main__":
    sys.exit(main())
