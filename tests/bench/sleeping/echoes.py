"""The contestants of our own: echoes over eventfds, TCP and verbs. All print the same JSON."""

import json

import commands
import places
from contestant import Contestant


IDLE_US = 3000  # between messages: longer than anything that stays awake for the next one


def idle_figures_of(report, place):
    """The same for a client that sleeps before each message: everybody is asleep when it leaves."""
    yield f"idle_latency_{place}", "us", report["one_way_us"]
    yield f"idle_p99_{place}", "us", report["round_trip_us"]["p99"] / 2
    yield f"idle_cpu_{place}", "us", report["cpu_us_per_message"]["both"]


def figures_of(report, place):
    """The figures of one run, as (what, unit, value). `what` names the place and the number of
    connections, so that the same work has the same name for everybody."""
    one = report["connections"] == 1
    where = place + ("" if one else f"_{report['connections']}")
    round_trip = report["round_trip_us"]
    if one:
        yield f"latency_{where}", "us", report["one_way_us"]
        # ibv_rc_pingpong and others print the mean, so they are compared with the mean.
        yield f"mean_latency_{where}", "us", report["seconds"] / report["echoes"] * 1e6 / 2
    yield f"p99_{where}", "us", round_trip["p99"] / 2
    yield f"worst_{where}", "us", round_trip["max"]  # of a message: not known better than this
    yield f"rate_{where}", "/s", report["echoes_per_second"]
    yield f"cpu_{where}", "us", report["cpu_us_per_message"]["both"]


class Echo(Contestant):
    """Runs for `seconds`, however many echoes that are."""

    def __init__(self, bin_folder, name, place, *, connections=1, seconds=0.4, idle=False):
        super().__init__(bin_folder, name)
        self.place, self.figures = place, idle_figures_of if idle else figures_of
        pause = ["--pause-us", IDLE_US, "--warm-up", 10] if idle else []
        self.limit = ["--limit", int(seconds) + 15]
        self.plan = ["--connections", connections, "--rounds", 200_000, "--seconds", seconds,
                     *pause, *self.limit]

    def measure(self):
        words = self.output().strip().splitlines()
        if not words:
            raise commands.Failed("printed nothing")
        return list(self.figures(json.loads(words[-1]), self.place.name))


class Eventfd(Echo):
    """The least that waking another process costs. If both spin in memory (`wait`), the least that
    it costs to be noticed by one that runs: where the peer writes the memory itself, or where a
    helper thread does when a datagram comes."""

    NAMES = {"block": "eventfd", "spin": "spin", "helper": "spin_with_helper"}

    def __init__(self, bin_folder, place, wait="block", **plan):
        super().__init__(bin_folder, self.NAMES[wait], place, **plan)
        self.wait = ["--wait", wait]

    def output(self):
        cores = ["--cores", 0, 1] if self.pinned else []
        words = [self.bin / "eventfd_echo", *self.wait, *self.plan, *cores]
        return commands.output_of([str(word) for word in words])


class Tcp(Echo):
    """TCP with epoll. Shared memory has the same peer as a loopback socket: this host's TCP."""

    def __init__(self, bin_folder, place, **plan):
        super().__init__(bin_folder, "tcp", place, **plan)

    def output(self):
        at = ["--address", self.place.server_address, "--port", next(places.ports)]
        program = self.bin / "tcp_echo"
        return self.pair(self.place.plain(places.SERVER, [program, "--server", *at, *self.limit]),
                         self.place.plain(places.CLIENT, [program, *at, *self.plan]))


class Verbs(Echo):
    """verbs_echo under `weft run`, asleep in the given way."""

    def __init__(self, bin_folder, place, wait, *, channels=False, **plan):
        super().__init__(bin_folder, f"verbs_{wait}" + ("_channels" if channels else ""), place,
                         **plan)
        self.wait = ["--wait", wait] + (["--channels-per-connection"] if channels else [])

    def output(self):
        at = ["--address", self.place.server_address, "--port", next(places.ports)]
        common = [self.bin / "verbs_echo", *at, *self.wait]
        return self.pair(self.place.weft(places.SERVER, [*common, "--server", *self.limit]),
                         self.place.weft(places.CLIENT, [*common, *self.plan]))
