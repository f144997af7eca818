"""page.py on made-up results."""

import unittest

import page

RESULTS = {"versions": {"perftest": "4.5"}, "cases": [
    {"client": "perftest", "case": "ib_a|b", "status": "passed", "note": ""},
    {"client": "perftest", "case": "ib_c", "status": "skipped", "note": "XRC"},
    {"client": "UCX", "case": "ucx_d", "status": "failed", "note": "the client hangs"}]}
SUITE = {"version": "44.0", "generic": 3, "vendor": 9, "passed": 1, "failed": 1, "skipped": 1,
         "failures": ["tests.test_a"], "skip_reasons": {"no huge pages": 1}}


class Page(unittest.TestCase):
    """Nothing that failed or was skipped is lost."""

    def test_counts_and_rows(self):
        text = page.page(RESULTS, SUITE)
        for line in ("| perftest | 1 | 0 | 1 |", "| in all | 1 | 1 | 1 |",
                     "Versions: perftest 4.5.",
                     "| perftest | `ib_a\\|b` | passed |  |",
                     "| UCX | `ucx_d` | failed | the client hangs |",
                     "- failed: `tests.test_a`", "| 1 | no huge pages |"):
            self.assertIn(line, text.splitlines())

    def test_says_when_the_suite_was_not_run(self):
        self.assertIn("Not run.", page.page(RESULTS, None).splitlines())
