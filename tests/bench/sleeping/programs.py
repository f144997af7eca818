"""Real programs that sleep between messages: rping, rsockets (rstream, and iperf preloaded with
them), and tgtd, an iSCSI server with one epoll loop that speaks iSER (verbs) as well as TCP."""

import contextlib
import glob
import pathlib
import signal
import subprocess
import tempfile
import time

import commands
import places
from contestant import Contestant
from tools import Counted, found

RSOCKETS = "/usr/lib/*/rsocket/librspreload.so.1"
TARGET = "iqn.2026-11.weft:disk"
INITIATOR = "iqn.2010-11.libiscsi:iscsi-perf"


class Rping(Contestant):
    """rping prints no time: what more iterations take longer is the time of these. An iteration is
    four sends, a read and a write."""

    FEW, MORE = 20, 120

    def __init__(self, bin_folder, place):
        super().__init__(bin_folder, "rping", "rping", "rdmacm-utils")
        self.place = place

    def seconds(self, count):
        words = ["rping", "-a", self.place.server_address, "-p", next(places.ports), "-C", count]
        with commands.started(self.place.weft(places.SERVER, [*words, "-s"]),
                              core=self.core(places.SERVER)):
            time.sleep(0.3)  # it listens at the connection manager, which /proc does not show
            begun = time.monotonic()
            commands.output_of(self.place.weft(places.CLIENT, [*words, "-c"]),
                               core=self.core(places.CLIENT))
            return time.monotonic() - begun

    def measure(self):
        seconds = self.seconds(self.MORE) - self.seconds(self.FEW)
        return [("rping_iteration", "us", seconds * 1e6 / (self.MORE - self.FEW))]


class Rstream(Counted):
    """rstream with blocking calls, one message to and fro: over rsockets on weft, or over TCP."""

    def __init__(self, bin_folder, place, rsockets):
        name = "rstream_on_weft" if rsockets else "rstream_tcp"
        super().__init__(bin_folder, name, "rstream", "rdmacm-utils")
        self.place, self.rsockets = place, rsockets

    def measure(self):
        port = next(places.ports)
        words = ["rstream", "-S", 64, "-C", 1, "-I", self.count, "-T", "b", "-p", port]
        start = self.place.weft
        if not self.rsockets:
            words, start = [*words, "-T", "s"], self.place.plain
        with commands.started(start(places.SERVER, words), core=self.core(places.SERVER)):
            time.sleep(0.3)
            client = [*words, "-s", self.place.server_address]
            out = commands.output_of(start(places.CLIENT, client), core=self.core(places.CLIENT))
        one_way_us = float(found(r"\n(?:\S+\s+){7}([\d.]+)", out))
        self.settle(2 * one_way_us)
        return [("rstream_latency", "us", one_way_us)]


class Iperf(Contestant):
    """A stream by iperf, whose sockets are rsockets on weft, or TCP."""

    def __init__(self, bin_folder, place, rsockets):
        name = "iperf_on_weft" if rsockets else "iperf_tcp"
        super().__init__(bin_folder, name, "iperf", "iperf")
        self.place, self.rsockets = place, rsockets
        if rsockets and not self.lacks and not glob.glob(RSOCKETS):
            self.lacks = "no rsockets (Debian: librdmacm1)"

    def start(self, side, words):
        if not self.rsockets:
            return self.place.plain(side, words)
        preload = f"LD_PRELOAD={glob.glob(RSOCKETS)[0]}"
        return ["env", preload, *self.place.weft(side, words)]

    def measure(self):
        words = ["iperf", "-p", next(places.ports), "-y", "C"]
        with commands.started(self.start(places.SERVER, [*words, "-s"]),
                              core=self.core(places.SERVER)):
            time.sleep(0.5)
            client = [*words, "-t", 1, "-c", self.place.server_address]
            out = commands.output_of(self.start(places.CLIENT, client),
                                     core=self.core(places.CLIENT))
        bits_per_second = float(found(r",(\d+)\s*$", out))
        return [("iperf_stream", "GB/s", bits_per_second / 8e9)]


class Tgt(Contestant):
    """tgtd and iscsi-perf, one 4 KiB read at a time: iSER on weft, or iSCSI over TCP. tgtd listens
    for iSER at one port only, so only one runs at a time."""

    BLOCKS = 8  # of 512 bytes

    def __init__(self, bin_folder, place, lld):
        name = "iscsi_on_weft" if lld == "iser" else "iscsi_tcp"
        super().__init__(bin_folder, name, "tgtd", "tgt")
        self.place, self.lld = place, lld
        if not self.lacks and not glob.glob("/usr/bin/iscsi-perf"):
            self.lacks = "not installed (Debian: libiscsi-bin)"

    def start(self, side, words):
        return (self.place.weft if self.lld == "iser" else self.place.plain)(side, words)

    def administer(self, control, *words):
        subprocess.run(["tgtadm", "-C", str(control), "--lld", self.lld, "--tid", "1", *words],
                       check=True, capture_output=True, timeout=5)

    def add_disk(self, control, image):
        """Retried: tgtd takes a moment until it answers."""
        new = ["--mode", "target", "--op", "new", "--targetname", TARGET]
        for _ in range(50):
            with contextlib.suppress(subprocess.CalledProcessError):
                self.administer(control, *new)
                break
            time.sleep(0.05)
        self.administer(control, "--mode", "logicalunit", "--op", "new", "--lun", "1",
                        "--backing-store", image)
        for whom in (["-I", "ALL"], ["-Q", INITIATOR]):  # iSER looks at the name
            self.administer(control, "--mode", "target", "--op", "bind", *whom)

    def measure(self):
        port = next(places.ports)
        control = port  # of its own: another tgtd may run here
        server = ["tgtd", "-f", "-C", control, "--iscsi", f"portal=127.0.0.1:{port}", "--iser",
                  "pool_sz_mb=64"]
        with tempfile.NamedTemporaryFile() as image:
            pathlib.Path(image.name).write_bytes(bytes(16 << 20))
            with commands.started(self.start(places.SERVER, server),
                                  core=self.core(places.SERVER)) as process:
                try:
                    self.add_disk(control, image.name)
                    out = self.perf(3260 if self.lld == "iser" else port)
                except subprocess.SubprocessError as failure:
                    raise commands.Failed(f"tgtadm: {failure}") from failure
                finally:
                    commands.end(process, (signal.SIGKILL,))  # it ignores others while it has disks
        return [("iscsi_reads", "/s", float(found(r"iops average (\d+)", out)))]

    def perf(self, port):
        scheme = "iser" if self.lld == "iser" else "iscsi"
        client = ["iscsi-perf", "-m", 1, "-b", self.BLOCKS, "-t", 1,
                  f"{scheme}://127.0.0.1:{port}/{TARGET}/1"]
        return commands.output_of(self.start(places.CLIENT, client), core=self.core(places.CLIENT))
