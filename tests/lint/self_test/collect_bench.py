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


def collected(test, group, samples, missing):
    """(name, row) of each row that a group's samples become."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / group).mkdir()
        (root / group / "samples.json").write_text(json.dumps(
            {"samples": samples, "failures": {}, "missing": missing or {}, "rounds": 1}))
        run = subprocess.run(
            [sys.executable, LINT.parents[1] / "scripts/collect_bench.py", root, root / "out"],
            capture_output=True, text=True, check=False)
        test.assertEqual(run.returncode, 0, run.stderr)
        rows = json.loads((root / "out").read_text())
    for row in rows:
        test.assertEqual(list(row), FIELDS)
    return [(row["name"].removeprefix(f"{group}/"), row) for row in rows]


class CollectBench(unittest.TestCase):
    """The rows of the same-host comparison: made-up samples in, rows of bench.json out."""

    def rows(self, samples, missing=None):
        """The rows by name; where several sizes share a name, the last."""
        return dict(collected(self, "same_host", samples, missing))

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


def sleeper(name, value, turn=1, canary=100, unit="us"):
    return {"name": name, "size": 64, "unit": unit, "value": value, "before": canary,
            "after": canary, "round": turn}


class CollectChannels(unittest.TestCase):
    """The rows of channels, which were compared before: ratios such that more is better."""

    def row(self, **fields):
        made_up = {"name": "channel: made up", "unit": "us", "median": 1.0, "min": 0.9, "max": 1.1, "n": 3,
                   "best_peer": "ucx tag_lat", "best_peer_median": 2.0, "ratio_to_peer": 0.5, "bar": 0.8,
                   "ok": True, "ratios": [0.5]} | fields
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "channel").mkdir()
            (root / "channel" / "samples.json").write_text(json.dumps([made_up]))
            run = subprocess.run(
                [sys.executable, LINT.parents[1] / "scripts/collect_bench.py", root, root / "out"],
                capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            (row,) = json.loads((root / "out").read_text())
        self.assertEqual(list(row), FIELDS)
        return row

    def test_a_time_is_held_against_the_shortest(self):
        row = self.row()
        self.assertEqual((row["name"], row["ratio_to_peer"], row["bar"], row["ok"]),
                         ("channel/made up", 2.0, 1.25, True))

    def test_a_rate_is_held_against_the_highest(self):
        row = self.row(unit="M/s", ratio_to_peer=1.9, bar=2, ok=False)
        self.assertEqual((row["ratio_to_peer"], row["bar"], row["ok"]), (1.9, 2, False))

    def test_what_is_not_installed_is_not_passed(self):
        row = self.row(best_peer="not installed", best_peer_median=None, ratio_to_peer=None, ok=None)
        self.assertEqual((row["best_peer"], row["ok"]), ("not installed", None))


class CollectSleeping(unittest.TestCase):
    """The rows of the programs that sleep."""

    PING_PONG, EVENTFD = "ibv_rc_pingpong/mean_latency_shm", "eventfd/mean_latency_shm"

    def rows(self, samples, missing=None):
        rows = collected(self, "sleeping", samples, missing)
        self.assertEqual(len(rows), len(dict(rows)), "a row is there twice")
        return dict(rows)

    def test_ping_pong_is_held_against_eventfd(self):
        for value, ok in ((64.9, True), (65.1, False)):
            row = self.rows([sleeper(self.PING_PONG, value),
                             sleeper(self.EVENTFD, 50)])[self.PING_PONG]
            self.assertEqual((row["limit"], row["limit_median"], row["ok"]), ("eventfd", 50, ok))

    def test_rate_is_held_against_tcp(self):
        for place, tcp, least in (("shm", "loopback", 1.0), ("veth", "veth", 0.7)):
            for factor, ok in ((1.01, True), (0.99, False)):
                name = f"verbs_epoll/rate_{place}_64"
                row = self.rows([sleeper(name, 1000 * least * factor, unit="/s"),
                                 sleeper(f"tcp/rate_{tcp}_64", 1000, unit="/s")])[name]
                self.assertEqual((row["best_peer"], row["ok"]), ("tcp", ok))

    def test_ratio_is_the_median_of_those_in_one_round(self):
        pairs = [(50, 50), (200, 100), (90, 30)]  # waking costs more from round to round
        samples = [sleeper(name, value, turn, 100) for turn, pair in enumerate(pairs)
                   for name, value in zip((self.PING_PONG, self.EVENTFD), pair)]
        self.assertAlmostEqual(self.rows(samples)[self.PING_PONG]["ratio_to_limit"], 0.5)

    def test_drops_samples_whose_canary_moved(self):
        samples = [sleeper(self.PING_PONG, value, turn, canary)
                   for turn, (value, canary) in enumerate(((50, 100), (52, 110), (500, 300)))]
        row = self.rows(samples)[self.PING_PONG]
        self.assertEqual((row["n"], row["max"]), (2, 52))

    def test_keeps_every_sample_under_load(self):
        name = "verbs_epoll/p99_shm_load"
        samples = [sleeper(name, value, turn, canary=0) for turn, value in enumerate((100, 300))]
        samples += [sleeper("tcp/p99_loopback_load", 100, turn, canary=0) for turn in range(2)]
        row = self.rows([*samples, sleeper(self.EVENTFD, 50)])[name]
        self.assertEqual((row["n"], row["ok"]), (2, True))

    def test_one_late_message_fails(self):
        name = "verbs_epoll/worst_veth_load"
        for worst, ok in ((99_000, True), (101_000, False)):
            row = self.rows([sleeper(name, value, turn, canary=0)
                             for turn, value in enumerate((10, 20, worst))])[name]
            self.assertEqual((row["limit"], row["ok"]), ("required", ok))

    def test_what_was_not_measured_does_not_pass(self):
        rows = self.rows([sleeper(self.EVENTFD, 50)])
        row = rows[self.PING_PONG]
        self.assertEqual((row["median"], row["ok"]), (None, False))

    def test_nobody_knows_where_the_other_is_missing(self):
        self.assertIsNone(self.rows([sleeper(self.PING_PONG, 50)])[self.PING_PONG]["ok"])

    def test_says_what_is_missing(self):
        rows = self.rows([sleeper(self.PING_PONG, 50)], {"veth": "no namespaces"})
        self.assertEqual(rows["veth"]["best_peer"], "veth: no namespaces")
