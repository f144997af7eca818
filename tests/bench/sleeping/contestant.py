"""What every contestant of the comparison of sleeping programs has: a name, what it lacks, and
run(), which gives samples (see same_host/contestants.py) between two canaries. The canary is an
eventfd ping-pong: what waking a process on the other core costs at this moment, which a virtual
machine changes by a factor of two and more."""

import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "same_host"))
import commands  # noqa: E402  pylint: disable=wrong-import-position
import contestants  # noqa: E402  pylint: disable=wrong-import-position
import places  # noqa: E402  pylint: disable=wrong-import-position

CANARY_ROUNDS = 150
BOUND_S = 20
SIZE = 64


class Contestant:
    """`measure()` of a subclass gives (what, unit, value) for each figure of one run."""

    def __init__(self, bin_folder, name, program=None, package=None):
        self.bin, self.name = bin_folder, name
        self.lacks = None
        if program and not shutil.which(program):
            self.lacks = f"not installed (Debian: {package})"
        self.pinned, self.load = True, ""

    def under_load(self, label):
        """Its figures are those under load from now on."""
        self.load = f"_{label}"
        return self

    def free(self):
        """No core for each process: the scheduler decides, and may well put both onto one."""
        self.pinned = False
        return self

    @property
    def suffix(self):
        return self.load + ("" if self.pinned else "_free")

    @property
    def title(self):
        return self.name + self.suffix

    def run(self):
        before = self.canary()
        figures = self.measure()
        after = self.canary()
        return [contestants.sample(f"{self.name}/{what}{self.suffix}", SIZE, unit, value, before,
                                   after)
                for what, unit, value in figures], None

    def measure(self):
        raise NotImplementedError

    def canary(self):
        """Nanoseconds one way. Under load it would tell nothing."""
        if self.load:
            return 0.0
        out = commands.output_of([self.bin / "eventfd_echo", "--rounds", str(CANARY_ROUNDS),
                                  "--warm-up", "20", "--cores", "0", "1"])
        return json.loads(out)["one_way_us"] * 1000

    def core(self, side):
        return side if self.pinned else None

    def pair(self, server, client, *, port=None, bound_s=BOUND_S):
        """What the client prints. `port`: wait until the server listens there; otherwise the client
        tries until it does."""
        with commands.started(server, core=self.core(places.SERVER)) as process:
            if port:
                commands.wait_for_listener(port, process)
            return commands.output_of(client, core=self.core(places.CLIENT), bound_s=bound_s)
