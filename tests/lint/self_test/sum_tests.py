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
}


class SumTests(unittest.TestCase):
    """The line that closes `make test`: made-up reports in, exit status and closing line out."""

    def closing_line(self, *presets):
        """Each preset is (status, names of cases), or (status, None) for one without a report."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            lines = []
            for number, (status, cases) in enumerate(presets):
                lines.append(f"p{number} {status} 1\n")
                (root / f"p{number}").mkdir()
                if cases is not None:
                    body = "".join(CASES[case] for case in cases)
                    (root / f"p{number}/junit.xml").write_text(f"<testsuite>{body}</testsuite>")
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
