"""Self-tests of the checks: each check is run on a small made-up tree, once good and once bad."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(__file__).parents[1]
SKIPPED = 77


class CheckTest(unittest.TestCase):
    """Runs one check (the class attribute) on trees given as {path: text}."""

    check = ""

    def run_check(self, files, **environment):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            run = subprocess.run(
                [sys.executable, LINT / f"{self.check}.py", "--root", root],
                capture_output=True, text=True, check=False, env={**os.environ, **environment})
            if run.returncode == SKIPPED:
                self.skipTest(run.stdout)
            return run.returncode, run.stdout + run.stderr

    def assert_passes(self, files, **environment):
        code, output = self.run_check(files, **environment)
        self.assertEqual(code, 0, output)

    def assert_fails(self, files, because, **environment):
        code, output = self.run_check(files, **environment)
        self.assertEqual(code, 1, output)
        self.assertIn(because, output)
