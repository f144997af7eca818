import pathlib
import subprocess
import sys
import tempfile
import unittest

from . import LINT

CASES = {
    "passed": '<testcase name="a" status="run"/>',
    "failed": '<testcase name="b" status="fail"><failure message=""/></testcase>',
    "skipped": '<testcase name="c" status="notrun">'
               '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>',
    "disabled": '<testcase name="d" status="disabled"/>',
    "missing": '<testcase name="e" status="notrun">'
               '<skipped message="Unable to find executable"/></testcase>',
    "shard": '<testcase name="unit.unit_x.0" status="run"/>',
    "bad shard": '<testcase name="unit.unit_x.0" status="fail"><failure message=""/></testcase>',
}

# What googletest writes about tests that ran in one process.
TESTS = {
    "passed": '<testcase name="a" classname="X" status="run" result="completed"/>',
    "failed": '<testcase name="b" classname="X" status="run" result="completed"><failure/>'
              '</testcase>',
    "skipped": '<testcase name="c" classname="X" status="run" result="skipped"><skipped/>'
               '</testcase>',
    "of another": '<testcase name="d" classname="X" status="notrun" result="suppressed"/>',
}


class SumTests(unittest.TestCase):
    """The line that closes `make test`: made-up reports in, exit status and closing line out."""

    def closing_line(self, *presets, shard=None):
        """Each preset is (status, names of cases), or (status, None) for one without a report.
        `shard`: the names of the tests that the shard wrote about."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            lines = []
            for number, (status, cases) in enumerate(presets):
                lines.append(f"p{number} {status} 1\n")
                (root / f"p{number}").mkdir()
                if cases is not None:
                    body = "".join(CASES[case] for case in cases)
                    (root / f"p{number}/junit.xml").write_text(f"<testsuite>{body}</testsuite>")
                if shard is not None:
                    (root / f"p{number}/shards").mkdir()
                    body = "".join(TESTS[test] for test in shard)
                    (root / f"p{number}/shards/unit.unit_x.0.xml").write_text(
                        f"<testsuites><testsuite>{body}</testsuite></testsuites>")
            (root / "status").write_text("".join(lines))
            run = subprocess.run(
                [sys.executable, LINT.parents[1] / "scripts/sum_tests.py", root / "status"],
                capture_output=True, text=True, check=False)
            return run.returncode, run.stdout.splitlines()[-1]

    def test_sums_presets(self):
        self.assertEqual(self.closing_line(("ok", ["passed"] * 2), ("ok", ["passed"])),
                         (0, "3 passed, 0 failed"))

    def test_counts_skipped_and_disabled_apart(self):
        self.assertEqual(self.closing_line(("ok", ["passed", "skipped", "disabled"])),
                         (0, "1 passed, 0 failed, 2 skipped"))

    def test_fails_for_failed_test_and_for_missing_program(self):
        self.assertEqual(self.closing_line(("bad", ["passed", "failed"])), (1, "1 passed, 1 failed"))
        self.assertEqual(self.closing_line(("bad", ["passed", "missing"])), (1, "1 passed, 1 failed"))

    def test_fails_when_ctest_or_the_build_failed(self):
        self.assertEqual(self.closing_line(("bad", ["passed"])), (1, "1 passed, 1 failed"))
        self.assertEqual(self.closing_line(("ok", ["passed"]), ("bad", None)),
                         (1, "1 passed, 1 failed"))

    def test_fails_when_nothing_ran(self):
        self.assertEqual(self.closing_line(("ok", [])), (1, "0 passed, 0 failed"))
        self.assertEqual(self.closing_line(("ok", ["skipped"])),
                         (1, "0 passed, 0 failed, 1 skipped"))

    def test_counts_the_tests_of_a_shard(self):
        self.assertEqual(
            self.closing_line(("ok", ["passed", "shard"]),
                              shard=["passed", "passed", "skipped", "of another"]),
            (0, "3 passed, 0 failed, 1 skipped"))
        self.assertEqual(self.closing_line(("bad", ["bad shard"]), shard=["passed", "failed"]),
                         (1, "1 passed, 1 failed"))

    def test_fails_for_a_shard_that_ended_early_or_badly(self):
        self.assertEqual(self.closing_line(("bad", ["passed", "bad shard"])),
                         (1, "1 passed, 1 failed"))
        self.assertEqual(self.closing_line(("ok", ["passed", "shard"])), (1, "1 passed, 1 failed"))
        self.assertEqual(self.closing_line(("bad", ["bad shard"]), shard=["passed"]),
                         (1, "1 passed, 1 failed"))
