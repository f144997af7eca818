import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from . import LINT

FIELDS = ["name", "size", "unit", "median", "min", "max", "n", "best_peer", "best_peer_median",
          "limit", "limit_median", "ratio_to_peer", "ratio_to_limit", "bar", "ok"]


def sample(name, size, unit, value, canary=100):
    return {"name": name, "size": size, "unit": unit, "value": value, "before": 100,
            "after": canary}


class CollectBench(unittest.TestCase):
    """The rows of the same-host comparison: made-up samples in, rows of bench.json out."""

    def rows(self, samples, missing=None):
        """The rows by name; where several sizes share a name, the last."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "same_host").mkdir()
            (root / "same_host/samples.json").write_text(json.dumps(
                {"samples": samples, "failures": {}, "missing": missing or {}, "rounds": 1}))
            run = subprocess.run(
                [sys.executable, LINT.parents[1] / "scripts/collect_bench.py", root, root / "out"],
                capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            rows = json.loads((root / "out").read_text())
        for row in rows:
            self.assertEqual(list(row), FIELDS)
        return {row["name"].removeprefix("same_host/"): row for row in rows}

    def test_latency_is_held_against_the_fastest_peer(self):
        peers = [sample("ucx/send_latency", 8, "us", 0.5),
                 sample("mpich/send_latency", 8, "us", 0.4)]
        for value, ok in ((0.33, True), (0.35, False)):
            row = self.rows([*peers, sample("weft/send_latency", 8, "us", value)])["send_latency"]
            self.assertEqual((row["best_peer"], row["best_peer_median"], row["ok"]),
                             ("mpich", 0.4, ok))
            self.assertAlmostEqual(row["ratio_to_peer"], 0.4 / value)

    def test_rate_is_held_against_the_highest_peer(self):
        peers = [sample("ucx/send_rate", 8, "M/s", 8), sample("openmpi/send_rate", 8, "M/s", 10)]
        for value, ok in ((15.1, True), (14.9, False)):
            row = self.rows([*peers, sample("weft/send_rate", 8, "M/s", value)])["send_rate"]
            self.assertEqual((row["best_peer"], row["ok"]), ("openmpi", ok))

    def test_write_latency_has_a_bar_for_the_peer_and_one_for_the_limit(self):
        rows = self.rows([sample("weft/write_latency", 8, "us", 0.15),
                          sample("ucx/put_latency", 8, "us", 0.16),
                          sample("limit/two_lines", 8, "us", 0.10)])
        self.assertEqual((rows["write_latency"]["ok"], rows["write_latency_limit"]["ok"]),
                         (True, False))

    def test_programs_under_weft_run_are_held_against_the_system_call(self):
        limits = [sample("limit/process_vm_ping_pong", 8, "us", 1.0),
                  sample("limit/process_vm_writev", 64 << 10, "GB/s", 10)]
        for latency, rate, ok in ((1.49, 9.1, True), (1.51, 8.9, False)):
            rows = self.rows([*limits, sample("shim/ib_write_lat", 8, "us", latency),
                              sample("shim/ib_write_bw", 64 << 10, "GB/s", rate)])
            self.assertEqual((rows["shim/ib_write_lat"]["ok"], rows["shim/ib_write_bw"]["ok"]),
                             (ok, ok))

    def test_a_row_may_take_so_much_longer_than_another(self):
        for median, ok in ((124, True), (126, False)):
            with tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                run = {"run_type": "iteration", "time_unit": "ns"}
                (root / "made_up.json").write_text(json.dumps({"benchmarks": [
                    run | {"run_name": "short", "real_time": 99},
                    run | {"run_name": "long", "real_time": median,
                           "label": "limit=short plus=25 bar=1.0"}]}))
                subprocess.run([sys.executable, LINT.parents[1] / "scripts/collect_bench.py", root,
                                root / "out"], capture_output=True, check=True)
                rows = json.loads((root / "out").read_text())
            self.assertEqual([list(row) for row in rows], [FIELDS, FIELDS])
            self.assertEqual(rows[1]["ok"], ok)

    def test_plain_figures_are_required(self):
        for count, cost, ok in ((20_001, 2048, True), (19_999, 2049, False)):
            rows = self.rows([sample("weft/connects", 0, "/s", count),
                              sample("weft/bytes_per_queue_pair", 0, "B", cost)])
            self.assertEqual((rows["connects"]["ok"], rows["bytes_per_queue_pair"]["ok"]), (ok, ok))

    def test_drops_samples_whose_canary_moved(self):
        row = self.rows([sample("weft/send_rate", 8, "M/s", value, canary)
                         for value, canary in ((10, 100), (12, 140), (1, 300), (2, 40))])["send_rate"]
        self.assertEqual((row["n"], row["min"], row["median"], row["max"]), (2, 10, 11, 12))

    def test_compares_what_was_measured_in_the_usual_state_of_the_machine(self):
        near = [{"name": name, "size": 8, "unit": "M/s", "value": value, "before": 50, "after": 50}
                for name, value in (("weft/send_rate", 90), ("ucx/send_rate", 20))]
        far = [sample("weft/send_rate", 8, "M/s", 30), sample("ucx/send_rate", 8, "M/s", 10)] * 2
        row = self.rows(near + far)["send_rate"]
        self.assertEqual((row["n"], row["median"], row["best_peer_median"]), (2, 30, 10))

    def test_what_was_not_measured_does_not_pass(self):
        rows = self.rows([sample("ucx/send_rate", 8, "M/s", 8)])
        self.assertEqual((rows["send_rate"]["median"], rows["send_rate"]["ok"]), (None, False))

    def test_says_which_peer_is_not_installed(self):
        rows = self.rows([sample("weft/send_rate", 8, "M/s", 8)], {"mpich": "not installed"})
        self.assertEqual(rows["mpich"]["best_peer"], "mpich: not installed")
        self.assertEqual(rows["send_rate"]["best_peer"], "none measured (not installed: mpich)")
        self.assertIsNone(rows["send_rate"]["ok"])
