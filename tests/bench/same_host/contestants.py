"""Who takes part in the comparison: our own program, and the peers that are installed. A contestant
has a name, says what it lacks, and gives samples: dictionaries with name ("ucx/send_latency"),
size, unit, value, and the canaries before and after in nanoseconds."""

import itertools
import os
import pathlib
import shutil
import statistics
import tempfile

import commands

KIB, MIB = 1 << 10, 1 << 20


def sample(name, size, unit, value, before, after):
    return {"name": name, "size": int(size), "unit": unit, "value": float(value),
            "before": float(before), "after": float(after)}


def samples_in(text):
    """The samples that our own programs print."""
    return [sample(*line.split("\t")[1:]) for line in text.splitlines()
            if line.startswith("sample\t")]


class Ours:
    """A part of the program same_host: weft itself, and the machine's limits."""

    def __init__(self, bin_folder, part):
        self.name, self.lacks = part, None
        self.command = [bin_folder / "same_host", part]

    def run(self):
        out, reason = commands.output_of(self.command, partial=True)
        return samples_in(out), reason

    def canary(self):
        return float(commands.output_of([self.command[0], "canary"]).split("\t")[1])


class Mpi:
    """An MPI library, through mpi_peer; it takes the canaries itself."""

    def __init__(self, name, program, launcher, package, env=None):
        self.name, self.env = name, env
        self.command = [*launcher, program, name]
        installed = shutil.which(launcher[0]) and program.is_file()
        self.lacks = None if installed else f"not installed (Debian: {package})"

    def run(self):
        return samples_in(commands.output_of(self.command, env=self.env)), None


class OutsideTool:
    """A program of others with a server and a client, one on each core, between two canaries."""

    ports = itertools.count(20000 + os.getpid() % 10000)

    def __init__(self, name, program, package, canary):
        self.name, self.canary = name, canary
        self.lacks = None if shutil.which(program) else f"not installed (Debian: {package})"

    def client_output(self, server, client, env=None):
        """server and client: functions of the port that give the command."""
        port = next(self.ports)
        with commands.started(server(port), core=1, env=env) as process:
            commands.wait_for_listener(port, process)
            return commands.output_of(client(port), core=0, env=env)

    def between_canaries(self, name, size, unit, measure):
        before = self.canary()
        value = measure()
        return sample(f"{self.name}/{name}", size, unit, value, before, self.canary())


# Columns of ucx_perftest's CSV: latency in us, MiB/s, messages/s.
LATENCY, BANDWIDTH, RATE = (4, "us", 1), (6, "GB/s", MIB / 1e9), (8, "M/s", 1e-6)
UCX_TESTS = [  # name of the sample, test, size, iterations, column
    ("send_latency", ["-t", "tag_lat"], 8, 3000, LATENCY),
    ("put_latency", ["-t", "ucp_put_lat"], 8, 3000, LATENCY),
    ("uct_send_latency", ["-t", "am_lat", "-x", "posix", "-d", "memory"], 8, 3000, LATENCY),
    ("send_rate", ["-t", "tag_bw"], 8, 20000, RATE),
    *[(name, ["-t", test], size, 16 * MIB // size, BANDWIDTH)
      for size in (64 * KIB, MIB)
      for name, test in (("stream", "tag_bw"), ("put_stream", "ucp_put_bw"),
                         ("get_stream", "ucp_get"))],
]


class Ucx(OutsideTool):
    """One test of ucx_perftest, over shared memory: the median of short runs, which are its laps."""

    ENV = {"UCX_TLS": "posix,sysv,cma,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    LAPS = 9

    def __init__(self, canary, test):
        super().__init__("ucx", "ucx_perftest", "ucx-utils", canary)
        self.test = test

    def measure(self):
        _, arguments, size, iterations, (column, _, scale) = self.test
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as laps:
            laps.write(f"lap {' '.join(arguments)} -s {size} -n {iterations} "
                       f"-w {iterations // 10}\n" * self.LAPS)
            laps.flush()
            tool = ["ucx_perftest", "-f", "-v", "-b", laps.name, "-p"]
            out = self.client_output(lambda port: [*tool, str(port)],
                                     lambda port: [*tool, str(port), "127.0.0.1"], self.ENV)
        rows = [line.split(",") for line in out.splitlines() if line.startswith("lap,")]
        if not rows:
            raise commands.Failed("ucx_perftest printed no result")
        return statistics.median(float(row[column]) for row in rows) * scale

    def run(self):
        name, _, size, _, (_, unit, _) = self.test
        return [self.between_canaries(name, size, unit, self.measure)], None


class Libfabric(OutsideTool):
    """fi_pingpong over the shm provider; it prints hundredths of a microsecond."""

    def __init__(self, canary):
        super().__init__("libfabric", "fi_pingpong", "libfabric-bin", canary)

    def measure(self):
        base = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", "10000", "-S", "8"]
        out = self.client_output(lambda port: [*base, "-B", str(port)],
                                 lambda port: [*base, "-P", str(port), "127.0.0.1"])
        return float(out.splitlines()[-1].split()[6])

    def run(self):
        return [self.between_canaries("send_latency", 8, "us", self.measure)], None


PERFTEST = [  # program, size, iterations, unit, column of its row, factor
    ("ib_write_lat", 8, 5000, "us", 4, 1),
    ("ib_atomic_lat", 8, 5000, "us", 4, 1),
    ("ib_write_bw", 64 * KIB, 5000, "GB/s", 3, MIB / 1e9),
]


class Perftest(OutsideTool):
    """A program of perftest under `weft run`: what existing programs get. Its memory is the heap's."""

    def __init__(self, canary, weft, test):
        super().__init__("shim", test[0], "perftest", canary)
        self.weft, self.test = weft, test

    def measure(self):
        program, size, iterations, _, column, scale = self.test
        size_option = [] if "atomic" in program else ["-s", str(size)]
        tool = [self.weft, "run", "--", program, "-F", "-n", str(iterations), *size_option, "-p"]
        out = self.client_output(lambda port: [*tool, str(port)],
                                 lambda port: [*tool, str(port), "127.0.0.1"])
        rows = [line.split() for line in out.splitlines() if line.split()[:1] == [str(size)]]
        if not rows:
            raise commands.Failed(f"{program} printed no result")
        return float(rows[-1][column]) * scale

    def run(self):
        program, size, _, unit, _, _ = self.test
        return [self.between_canaries(program, size, unit, self.measure)], None


def all_of_them(bin_folder):
    bin_folder = pathlib.Path(bin_folder)
    limits = Ours(bin_folder, "limits")
    open_mpi = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                "-np", "2", "--mca"]
    program = bin_folder / "mpi_peer.openmpi"
    packages = "openmpi-bin libopenmpi-dev"
    return [
        limits, Ours(bin_folder, "weft"), Ours(bin_folder, "connections"),
        Mpi("openmpi", program, [*open_mpi, "pml", "ob1", "--mca", "btl", "self,vader"], packages),
        Mpi("openmpi+ucx", program,
            [*open_mpi, "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices",
             "any"], packages, Ucx.ENV),
        Mpi("mpich", bin_folder / "mpi_peer.mpich", ["mpiexec.hydra", "-n", "2"],
            "mpich libmpich-dev"),
        *[Ucx(limits.canary, test) for test in UCX_TESTS],
        Libfabric(limits.canary),
        *[Perftest(limits.canary, bin_folder / "weft", test) for test in PERFTEST],
    ]
