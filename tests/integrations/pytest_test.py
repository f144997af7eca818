"""The pytest plugin, in a suite of a user's: what has to pass passes, what has to fail says why."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
PLUGIN = HERE.parents[1] / "integrations" / "pytest"


class PytestPlugin(unittest.TestCase):
    def run_suite(self, folder: str, *arguments: str, **environment: str) -> dict[str, str]:
        """Runs the suite; gives for each test its failure, or nothing if it passed."""
        report = pathlib.Path(folder) / "report.xml"
        self.ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}",
             f"--basetemp={folder}/temporary", *arguments, HERE / "pytest_suite"],
            capture_output=True, text=True, timeout=200, check=False,
            env={**os.environ, "PYTHONPATH": str(PLUGIN), "PYTHONDONTWRITEBYTECODE": "1", **environment})
        return {case.attrib["name"]: "".join(part.text or "" for part in case if part.tag in ("failure", "error"))
                for case in ElementTree.parse(report).iter("testcase")}

    def test_each_test_ends_as_it_should(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = self.run_suite(folder)
            self.assertEqual(len(outcomes), 7, self.ended.stdout)
            for name, failure in outcomes.items():
                self.assertEqual(bool(failure), name.startswith("test_fails"), f"{name}: {failure}")
            self.assertIn("status 3", outcomes["test_fails_by_a_status"])
            self.assertIn("cause of the failure", outcomes["test_fails_by_a_status"])
            self.assertIn("did not end within 0.5 s", outcomes["test_fails_by_a_program_that_does_not_end"])
            # What was left running: its output is shown, and it is gone.
            self.assertIn("still here", self.ended.stdout)
            left = (pathlib.Path(folder) / "temporary" / "left.pid").read_text(encoding="ascii")
            self.assertFalse(pathlib.Path("/proc", left).exists())

    def test_a_machine_without_weft_fails_and_does_not_skip(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = self.run_suite(folder, "--weft=/nowhere/weft")
            self.assertTrue(outcomes)
            for name, failure in outcomes.items():
                self.assertIn("there is no command '/nowhere/weft'", failure, name)


if __name__ == "__main__":
    unittest.main()
