"""The GitHub action: its own steps, with weft's tarball, and a job that uses what they set up."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import unittest

from runner import Job, run_action

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["WEFT_BUILD"])
PAIR = """
{run} ib_write_bw -d weft0 --port 18532 --iters 100 >server.txt 2>&1 &
for attempt in $(seq 20); do
  {run} ib_write_bw -d weft0 --port 18532 --iters 100 127.0.0.1 && break
  sleep 0.5
done
wait $!
"""


class Action(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        folder = pathlib.Path(cls.folder.name)
        folder.chmod(0o777)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", folder / "weft-0.0"], check=True,
                       capture_output=True)
        cls.archive = folder / "weft.tar.gz"
        subprocess.run(["tar", "-czf", cls.archive, "-C", folder, "weft-0.0"], check=True)

    def job(self) -> Job:
        folder = tempfile.TemporaryDirectory(dir=self.folder.name)
        self.addCleanup(folder.cleanup)
        return Job(pathlib.Path(folder.name))

    def test_a_job_runs_a_pair_by_weft_run(self) -> None:
        job = self.job()
        status = run_action(TOP, job, archive=str(self.archive))
        self.assertEqual(status, 0, job.transcript)
        self.assertIn("device: weft0", job.transcript)
        self.assertEqual(job.outputs["path"], str(job.folder / "weft"))
        self.assertEqual(job.shell(PAIR.format(run="weft run --")), 0, job.transcript)
        self.assertIn("BW average", job.transcript)
        self.assertNotIn("LD_PRELOAD", job.environment)

    def test_a_job_with_preload_needs_no_weft_run(self) -> None:
        job = self.job()
        status = run_action(TOP, job, archive=str(self.archive), preload="true", devices="weft0 left=127.0.0.7")
        self.assertEqual(status, 0, job.transcript)
        self.assertEqual(job.shell("ibv_devices"), 0, job.transcript)
        self.assertIn("left", job.transcript)
        self.assertEqual(job.shell(PAIR.format(run="")), 0, job.transcript)
        self.assertEqual(job.shell('eval "$(weft env --unset)"; rm -rf "$WEFT_TREE"'), 0, job.transcript)

    def test_failures_name_cause_and_cure(self) -> None:
        plain = pathlib.Path(self.folder.name) / "plain.txt"
        plain.write_text("no archive", encoding="ascii")
        cases = {"/nowhere.tar.gz": "there is no file /nowhere.tar.gz, which `archive` names",
                 str(plain): "is not weft's tarball",
                 "": "could not get https://192.0.2.1/owner/weft/releases/download/v9/weft-linux-"}
        for archive, message in cases.items():
            job = self.job()
            self.assertNotEqual(run_action(TOP, job, archive=archive), 0, archive)
            self.assertIn(message, job.transcript)
            self.assertIn("::error::", job.transcript)


if __name__ == "__main__":
    unittest.main()
