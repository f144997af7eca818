"""One side of a pair is killed (SIGKILL) at its work: the other has to end with an error, soon.
Not here: sides that look at their memory alone, or that only receive, and so wait for ever on any
device. Those are both of ib_write_lat, the server of ucx_perftest's puts, the server of ib_send_bw,
and both of ib_send_lat, when nothing that they have sent is under way."""

from case import Case, words
from clients import mpi, ucx

PACKAGES = ()
CLIENT = "kill -9"
ADDRESS = "127.0.0.1"


def both(name, server, client, **more):
    for side in ("server", "client"):
        yield Case(CLIENT, f"{name}, the {side} is killed", words(client), words(server),
                   killed=side, **more)


def perftest(program, options):
    """Its server first, then its client is killed."""
    common = f"{program} -F -p {{port}} {options}"
    return both(f"{program} {options}".strip(), common, f"{common} {ADDRESS}")


def rping():
    common = f"-a {ADDRESS} -p {{port}} -C 100000000"
    return both("rping", f"rping -s {common}", f"rping -c {common}", expect="DISCONNECT EVENT")


def ucx_perftest(test):
    common = f"ucx_perftest -t {test} -n 1000000000 -f -p {{port}}"
    return both(f"ucx_perftest {test}", common, f"{common} {ADDRESS}", env=ucx.ENVIRONMENT,
                aborts=True)


def libfabric():
    common = "fi_pingpong -B {port} -p verbs -e msg -I 100000000"
    return both("fi_pingpong", common, common.replace("-B", "-P") + f" {ADDRESS}")


CASES = (
    *perftest("ib_write_bw", "-D 60"),
    *perftest("ib_read_bw", "-D 60"),
    next(perftest("ib_send_bw", "-D 60")),
    next(perftest("ib_send_bw", "-D 60 -R")),
    *perftest("ib_atomic_bw", "-D 60"),
    *rping(),
    *ucx_perftest("tag_lat"),
    next(ucx_perftest("ucp_put_bw")),
    *libfabric(),
    *mpi.DYING_CASES,
)
