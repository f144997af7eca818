"""suite.py on made-up words of unittest."""

import pathlib
import tempfile
import unittest

import suite

OUTPUT = """test_a (tests.test_addr.AHTest.test_a)
What it is for. ... ok
test_b (tests.test_mr.MRTest) ... skipped 'no huge pages'
test_c (tests.test_mr.MRTest.test_c) ... Player active got: an error
ERROR
test_d (tests.test_mlx5_cq.CqTest.test_d) ... skipped 'Can not run'
test_e (tests.test_qp.QPTest.test_e) ... FAIL

======================================================================
ERROR: test_c (tests.test_mr.MRTest.test_c)
Ran 5 tests in 1.0s
"""


class Suite(unittest.TestCase):
    """Reading and summing."""

    def test_reads_every_outcome(self):
        results = suite.parse(OUTPUT)
        self.assertEqual(len(results), suite.total_of(OUTPUT))
        self.assertEqual(results["tests.test_mr.MRTest.test_b"], ("skipped", "no huge pages"))
        self.assertEqual(results["tests.test_mr.MRTest.test_c"], ("failed", ""))

    def test_counts_the_generic_ones(self):
        summary = suite.sum_up(suite.parse(OUTPUT), "/nonexistent")
        numbers = [summary[key] for key in ("generic", "vendor", "passed", "failed", "skipped")]
        self.assertEqual(numbers, [4, 1, 1, 2, 1])
        self.assertEqual(summary["skip_reasons"], {"no huge pages": 1})

    def test_huge_pages_are_given_back(self):
        with tempfile.TemporaryDirectory() as folder:
            count = pathlib.Path(folder) / "nr_hugepages"
            for before, meanwhile in (("0\n", "8\n"), ("20\n", "20\n")):
                count.write_text(before)
                with suite.some_huge_pages(count):
                    self.assertEqual(count.read_text(), meanwhile)
                self.assertEqual(count.read_text(), before)
            with suite.some_huge_pages(pathlib.Path(folder) / "none"):
                pass
