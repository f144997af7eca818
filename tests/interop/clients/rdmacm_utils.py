"""rdmacm-utils: the examples of librdmacm, rsockets among them."""

import filecmp
import pathlib
import random

from case import Case, words

PACKAGES = ("rdmacm-utils",)
CLIENT = "rdmacm-utils"
ADDRESS = "127.0.0.1"
UDPONG_ROW = r"^custom\s+1000\s"
UDADDY_PORT = 7174
# The status alone says nothing: some end with 0 after an event that reports an error.
MOVED = r"^data transfers complete(.|\n)*^return status 0"
RSTREAM_ROW = r"^(\S+\s+){5}[\d.]+s\s+[\d.]+\s+[\d.]+"
# Who polls takes the server's end, if that is there before the last bytes were fetched, for an error
# (docs/reference/shim.md).
POLLHUP = 16
SHORT = "-S 1000 -C 10 -I 200"  # all sizes of rstream with blocking calls take their time


def pair(name, server, client, **more):
    return Case(CLIENT, name, words(client), words(server), **more)


def rping(options="", address=ADDRESS, **more):
    name = f"rping {options}".strip() + ("" if address == ADDRESS else f" {address}")
    common = f"-a {address} -p {{port}} -C 10 -V {options}"
    return pair(name, f"rping -s {common}", f"rping -c -v {common}",
                expect=r"^ping data: rdma-ping-9", **more)


def udaddy(options, **more):
    return pair(f"udaddy {options}".strip(), f"udaddy -b {ADDRESS} {options}",
                f"udaddy -s {ADDRESS} {options}", port=UDADDY_PORT, expect=MOVED,
                expect_server=MOVED, **more)


def udpong(options):
    """librdmacm addresses itself by LID here, which RoCE does not have."""
    return pair(f"udpong {options}", f"udpong -b {ADDRESS} -p {{port}} {options}",
                f"udpong -s {ADDRESS} -p {{port}} {options}", expect=UDPONG_ROW, server_ends=False,
                weft=words("--link-layer ib"))


def streams(program, options, **more):
    common = f"{program} -p {{port}} {options}"
    return pair(f"{program} {options}", f"{common} -b {ADDRESS}", f"{common} -s {ADDRESS}",
                expect=RSTREAM_ROW, timeout_s=180, **more)


def make_file(folder, _tools):
    pathlib.Path(folder, "source").write_bytes(random.Random(1).randbytes(3_000_001))


def compare_files(folder):
    names = [pathlib.Path(folder, name) for name in ("source", "copy")]
    if not names[1].exists():
        return "there is no copy"
    return "" if filecmp.cmp(*names, shallow=False) else "the copy differs"


CASES = (
    rping(quick=True),
    rping("-q"),
    rping("-S 60000"),
    rping("", "::1"),
    pair("ucmatose", f"ucmatose -b {ADDRESS} -p {{port}}", f"ucmatose -s {ADDRESS} -p {{port}}",
         expect=MOVED, expect_server=MOVED, quick=True),
    pair("ucmatose -c 20 -C 50 -m", f"ucmatose -b {ADDRESS} -p {{port}} -c 20 -C 50 -m",
         f"ucmatose -s {ADDRESS} -p {{port}} -c 20 -C 50 -m",
         expect=MOVED, expect_server=MOVED),
    udaddy("", quick=True),
    udaddy("-c 10 -C 20"),
    udpong("-S 1000 -C 1000"),
    udpong("-S 1000 -C 1000 -T e"),
    pair("mckey", f"mckey -m 239.1.1.1 -b {ADDRESS}", f"mckey -m 239.1.1.1 -b {ADDRESS} -s",
         listens=False, expect=MOVED, expect_server=MOVED, quick=True),
    pair("cmtime -c 50", f"cmtime -b {ADDRESS} -p {{port}} -c 50",
         f"cmtime -s {ADDRESS} -p {{port}} -c 50", expect=r"^connect\s*:",
         server_ends=False),
    pair("rdma_client", f"rdma_server -s {ADDRESS} -p {{port}}",
         f"rdma_client -s {ADDRESS} -p {{port}}", expect="rdma_client: end 0", quick=True),
    pair("rdma_xclient", "rdma_xserver -p {port}", f"rdma_xclient -s {ADDRESS} -p {{port}}",
         expect="rdma_xclient: end 0"),
    pair("rdma_xclient -c x", "rdma_xserver -p {port} -c x",
         f"rdma_xclient -s {ADDRESS} -p {{port}} -c x", expect="rdma_xclient: end 0"),
    streams("rstream", "-T v"),
    *(streams("rstream", f"-T v -T {how} {SHORT}", lost_race=POLLHUP if how == "a" else 0)
      for how in "banrf"),
    streams("riostream", "-T v"),
    *(streams("riostream", f"-T v -T {how} {SHORT}") for how in "ban"),
    pair("rcopy", "rcopy -p {port}", f"rcopy {{dir}}/source {ADDRESS}:{{dir}}/copy -p {{port}}",
         server_ends=False, prepare=make_file, check=compare_files),
)
