"""Runs RDMA programs that nobody here wrote under `weft run`, and says which of them work.

    run.py --weft build/bin/weft            the quick cases, those of `make test`
    run.py --weft build/bin/weft --all      all cases
    run.py --weft build/bin/weft --only fi_ those whose name contains the text
    run.py --list                           the names, and what they start

Exits with 1 when a case failed or when none ran, with 77 when a single case was asked for by
--case and had to be skipped."""

import argparse
import json
import pathlib
import re
import sys

import clients
import runner

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def slug(name):
    """A name for ctest: no spaces, no shell characters."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=pathlib.Path, default=pathlib.Path("build/bin/weft"))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", metavar="TEXT", help="of all cases, those whose name contains it")
    parser.add_argument("--case", metavar="SLUG", help="exactly one case, as ctest names it")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--list-quick", action="store_true", help="slug and seconds, for CMake")
    parser.add_argument("--tools", type=pathlib.Path, default=pathlib.Path("build/interop"))
    parser.add_argument("--json", type=pathlib.Path)
    return parser, parser.parse_args()


def chosen(asked, cases):
    if asked.case:
        return [case for case in cases if slug(case.name) == asked.case]
    if asked.only:
        return [case for case in cases if asked.only in case.name]
    return [case for case in cases if asked.all or case.quick]


def run_all(cases, asked):
    """Runs the cases one after the other, as most of them keep two cores busy."""
    rows = []
    for number, case in enumerate(cases, 1):
        result = runner.run_case(case, asked.weft.resolve(), asked.tools.resolve())
        print(f"[{number:3}/{len(cases)}] {result.status:8}{case.name:48}{result.seconds:6.1f} s"
              + (f"  {result.note}" if result.note else ""), flush=True)
        if result.output:
            print("\n".join("      " + line for line in result.output.splitlines()[-30:]))
        rows.append({"client": case.client, "case": case.name, "status": result.status,
                     "note": result.note, "seconds": round(result.seconds, 2)})
    return rows


def main():
    parser, asked = arguments()
    cases = clients.all_cases()
    if asked.list:
        for case in cases:
            print(f"{case.client:16}{case.name:48}{' '.join(case.command)}")
        return 0
    if asked.list_quick:
        print("\n".join(slug(case.name) for case in cases if case.quick))
        return 0
    if not chosen(asked, cases):
        parser.error("no case has that name: --list shows those that there are")
    if not asked.weft.exists():
        sys.exit(f"{asked.weft} does not exist: build it, or name it by --weft")
    runner.install()
    rows = run_all(chosen(asked, cases), asked)
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(
            {"versions": clients.versions(), "cases": rows}, indent=1) + "\n")
    counts = {status: sum(row["status"] == status for row in rows)
              for status in (runner.PASSED, runner.FAILED, runner.SKIPPED)}
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    if counts[runner.FAILED]:
        return 1
    if counts[runner.PASSED]:
        return 0
    return SKIPPED if asked.case and rows else 1


if __name__ == "__main__":
    sys.exit(main())
