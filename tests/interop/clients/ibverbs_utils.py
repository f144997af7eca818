"""ibverbs-utils: the small programs that come with libibverbs. -c makes them check what arrives.
Not here: ibv_rc_pingpong -t -e, which takes an event whose completion it has already polled for an
error, on any device."""

import signal

from case import Case, words

PACKAGES = ("ibverbs-utils",)
CLIENT = "ibverbs-utils"
RESULT = r"^\d+ bytes in [\d.]+ seconds"
XSRQ_RESULT = r"remote"  # it prints the addresses; that all messages came, its status says


def pingpong(kind, options="", quick=False, expect=RESULT, **more):
    program = f"ibv_{kind}_pingpong"
    gid = "" if "-g" in options else "-g 0"
    common = words(f"{program} {gid} -p {{port}} {options}")
    return Case(CLIENT, f"{program} {options}".strip(), (*common, "127.0.0.1"), common,
                expect=expect, expect_server=expect, quick=quick, **more)


CASES = (
    pingpong("rc", quick=True),
    pingpong("rc", "-c"),
    pingpong("rc", "-e -c", quick=True),
    pingpong("rc", "-N -c", quick=True),
    pingpong("rc", "-t"),
    pingpong("rc", "-o -c"),
    pingpong("rc", "-O -c"),
    pingpong("rc", "-o -P -c"),
    pingpong("rc", "-j -c"),
    pingpong("rc", "-j -N -c"),
    pingpong("rc", "-s 1000000 -c"),
    *(pingpong("rc", f"-g {index} -c", quick=index == 1) for index in (1, 2, 3)),
    pingpong("uc", "-c"),
    pingpong("uc", "-e -c"),
    pingpong("ud", "-c", quick=True),
    pingpong("ud", "-e -c"),
    pingpong("ud", "-g 1 -c"),
    pingpong("srq", "-c", quick=True),
    pingpong("srq", "-e -c"),
    pingpong("srq", "-o -c"),
    pingpong("xsrq", quick=True, expect=XSRQ_RESULT),
    pingpong("xsrq", "-e", expect=XSRQ_RESULT),
    Case(CLIENT, "ibv_devices", words("ibv_devices"), expect=r"^\s+weft0\s+[0-9a-f]{16}$"),
    Case(CLIENT, "ibv_devinfo -v", words("ibv_devinfo -v"), quick=True,
         expect=r"^hca_id:\s+weft0$(.|\n)*state:\s+PORT_ACTIVE(.|\n)*GID\[\s+0\]:"),
    Case(CLIENT, "ibv_devinfo -l", words("ibv_devinfo -l"), expect=r"^\s+weft0$"),
    Case(CLIENT, "ibv_devinfo, two devices", words("ibv_devinfo"),
         expect=r"^hca_id:\s+first$(.|\n)*^hca_id:\s+second$",
         weft=words("--device first --device second")),
    Case(CLIENT, "ibv_asyncwatch", words("ibv_asyncwatch"), expect="async event FD",
         ended_by=signal.SIGINT),
)
