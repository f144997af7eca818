"""Programs of others that measure: ibverbs-utils, UCX, qperf and perftest, each in the mode in
which it sleeps."""

import re

import commands
import places
from contestant import SIZE, Contestant

UNITS_IN_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "sec": 1e6}


def found(pattern, out):
    """The first group of the pattern's last match."""
    matches = re.findall(pattern, out)
    if not matches:
        raise commands.Failed("no figure in: " + " ".join(out.split())[-120:])
    return matches[-1]


class Counted(Contestant):
    """A program that is told how many iterations to do: as many as fill a turn, as far as the last
    turn tells."""

    LEAST, MOST, TURN_S = 100, 20_000, 0.4

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.count = self.LEAST

    def settle(self, us_per_iteration):
        self.count = int(max(self.LEAST, min(self.MOST, self.TURN_S * 1e6 / us_per_iteration)))


class PingPong(Counted):
    """`ibv_rc_pingpong -e` under `weft run`; it prints the mean."""

    def __init__(self, bin_folder, place):
        super().__init__(bin_folder, "ibv_rc_pingpong", "ibv_rc_pingpong", "ibverbs-utils")
        self.place = place

    def measure(self):
        port = next(places.ports)
        words = ["ibv_rc_pingpong", "-g", 0, "-e", "-s", SIZE, "-n", self.count, "-p", port]
        out = self.pair(self.place.weft(places.SERVER, words),
                        self.place.weft(places.CLIENT, [*words, self.place.server_address]),
                        port=port)
        round_trip_us = float(found(r"= ([\d.]+) usec/iter", out))
        self.settle(round_trip_us)
        return [(f"mean_latency_{self.place.name}", "us", round_trip_us / 2)]


class UcxAsleep(Counted):
    """`ucx_perftest -E sleep`: by shared memory, over TCP, or over verbs on weft."""

    TLS = {"shm": ["UCX_TLS=posix,self"],
           "loopback": ["UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"],
           "veth": ["UCX_TLS=tcp,self", f"UCX_NET_DEVICES={places.VETH_DEVICE}"]}
    ON_WEFT = ["UCX_TLS=rc_verbs,ud_verbs,self", "UCX_NET_DEVICES=weft0:1"]

    def __init__(self, bin_folder, place, on_weft=False):
        name = "ucx_on_weft" if on_weft else "ucx"
        super().__init__(bin_folder, name, "ucx_perftest", "ucx-utils")
        self.place, self.on_weft = place, on_weft

    def measure(self):
        port = next(places.ports)
        env = ["env", *(self.ON_WEFT if self.on_weft else self.TLS[self.place.name]),
               "UCX_WARN_UNUSED_ENV_VARS=n"]
        words = [*env, "ucx_perftest", "-f", "-v", "-t", "tag_lat", "-s", SIZE, "-n", self.count,
                 "-w", self.count // 10, "-E", "sleep", "-p", port]
        start = self.place.weft if self.on_weft else self.place.plain
        out = self.pair(start(places.SERVER, words),
                        start(places.CLIENT, [*words, self.place.server_address]), port=port)
        figures = found(r"\n\s*\d+,([\d.,]+)", out).split(",")  # median, mean, ...
        self.settle(2 * float(figures[1]))
        return [(f"latency_{self.place.name}", "us", float(figures[0]))]


class Qperf(Contestant):
    """qperf's ping-pong, which sleeps unless told otherwise; over verbs on weft, or over TCP."""

    def __init__(self, bin_folder, place, test):
        name = "qperf_on_weft" if test == "rc_lat" else "qperf_tcp"
        super().__init__(bin_folder, name, "qperf", "qperf")
        self.place, self.test = place, test

    def measure(self):
        port = next(places.ports)
        start = self.place.weft if self.test == "rc_lat" else self.place.plain
        words = ["qperf", "-lp", port]
        more = ["-cm", 1] if self.test == "rc_lat" else []
        client = [*words, "-t", 1, "-m", SIZE, *more, self.place.server_address, self.test]
        out = self.pair(start(places.SERVER, words), start(places.CLIENT, client), port=port)
        value, unit = found(r"latency\s+=\s+([\d.]+) (\w+)", out)
        return [("qperf_latency", "us", float(value) * UNITS_IN_US[unit])]


class LossyLatency(Counted):
    """ib_write_lat or ib_send_lat while frames are lost. They do not sleep, but helper threads do.
    What counts is the mean, which has in it what a loss costs; the median has not. A slow one does
    fewer rounds: if its slow runs were cut off, only its fast ones would count."""

    LEAST, MOST, TURN_S = 100, 1000, 1.5
    WITH = {"loss=1%": "with_loss", "loss=0%": "without_loss"}

    def __init__(self, bin_folder, place, program, faults="loss=1%"):
        super().__init__(bin_folder, program, program, "perftest")
        self.place, self.faults = place, faults

    def measure(self):
        port = next(places.ports)
        words = [self.name, "-F", "-n", self.count, "-s", SIZE, "-p", port]
        faults = ["--faults", self.faults]
        out = self.pair(self.place.weft(places.SERVER, words, faults),
                        self.place.weft(places.CLIENT, [*words, self.place.server_address], faults),
                        port=port)
        columns = found(rf"\n\s*({SIZE}\s+{self.count}(?:\s+[\d.]+){{4,}})", out).split()
        self.settle(2 * float(columns[5]))
        return [(f"{what}_{self.WITH[self.faults]}", "us", float(columns[column]))
                for what, column in (("typical", 4), ("mean", 5), ("worst", 3))]
