"""perftest: bandwidth and latency of each operation. It checks no data, but it counts completions
and fails on a bad one."""

from case import Case, words

PACKAGES = ("perftest",)
CLIENT = "perftest"
ROW = r"^\s*\d+\s+\d+(\s+[\d.]+){2,}"  # size, iterations, then the figures
DURATION_ROW = r"^\s*\d+(\s+[\d.]+){2,}"

# What every program of a kind is run with. The iterations keep a case around a second.
BANDWIDTH = ("", "-R", "-q 8", "-b", "-D 2", "-q 4 -b -R")
LATENCY = ("", "-R", "-D 2")
OPERATIONS = {
    "write": ("-a -n 200", "-c UC"),
    "read": ("-a -n 200",),
    "send": ("-a -n 200", "-c UC", "-c UD", "-e", "-c UD -e", "-c UD -R", "--use-srq"),
    "atomic": ("-A CMP_AND_SWAP", "-A FETCH_AND_ADD"),
}
QUICK = ("ib_write_bw -R", "ib_write_lat", "ib_read_lat", "ib_send_bw -q 8", "ib_send_lat -c UD -e",
         "ib_atomic_lat", "raw_ethernet_fs_rate")


def raw(program, options, *more, row=ROW):
    """These know each other by MAC addresses alone, so that nobody sees the server listen."""
    common = words(f"{program} -d weft0 -F {options}", *more)
    addresses = ("02:00:00:00:00:01", "02:00:00:00:00:02")
    server, client = (("-E", addresses[i], "-B", addresses[1 - i]) for i in (0, 1))
    return Case(CLIENT, f"{program} {options}".strip(), (*common, "--client", *client),
                (*common, "--server", *server), expect=row, listens=False,
                raw_sockets=True)


def pair(program, options, **more):
    name = f"{program} {options}".strip()
    common = words(f"{program} -F -p {{port}} {options}")
    row = DURATION_ROW if "-D" in options else ROW
    return Case(CLIENT, name, (*common, "127.0.0.1"), common, expect=row, quick=name in QUICK,
                timeout_s=180, **more)


CASES = (
    *(pair(f"ib_{operation}_{figure}", options)
      for operation, more in OPERATIONS.items()
      for figure, every in (("bw", BANDWIDTH), ("lat", LATENCY))
      for options in (*every, *more)),
    # As on mlx5: 1 is link-local, 3 the IP address, both as RoCE v2.
    pair("ib_write_bw", "-x 1"),
    pair("ib_write_bw", "-x 3"),
    pair("ib_send_lat", "-c UD -x 3"),
    pair("ib_send_bw", "-c XRC"),
    pair("ib_write_bw", "-c XRC"),
    # It wants an IPv6 address for its group; and all messages, so that nothing may be dropped.
    pair("ib_send_bw", "-g -c UD -r 1000", weft=words("--device weft0=::1")),
    raw("raw_ethernet_bw", "-D 2", row=DURATION_ROW),
    raw("raw_ethernet_lat", ""),
    raw("raw_ethernet_lat", "-D 2", row=DURATION_ROW),
    # One side, which makes rules and no traffic.
    Case(CLIENT, "raw_ethernet_fs_rate", words("raw_ethernet_fs_rate -d weft0 -F --server"
                                               " -E 02:00:00:00:00:01 -B 02:00:00:00:00:02"),
         expect=r"^\s*1000(\s+[\d.]+){5}", quick=True, raw_sockets=True),
)
assert sum(case.quick for case in CASES) == len(QUICK)
