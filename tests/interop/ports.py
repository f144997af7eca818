"""Ports for the cases: a free one, and whether a server already listens there."""

import pathlib
import random
import re
import socket

# Below what Linux gives to programs that do not care, so that nobody gets it meanwhile.
FIRST, LAST = 20_000, 32_000
LISTENING = "0A"  # in /proc/net/tcp


def is_free(port):
    if listens(port):
        return False
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                return False
    return True


def free_port():
    """Random, as several runs may look at the same time."""
    while True:
        port = random.randint(FIRST, LAST)
        if is_free(port):
            return port


def tcp_listens(port):
    for name in ("tcp", "tcp6"):
        path = pathlib.Path("/proc/net") / name
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == LISTENING and fields[1].endswith(f":{port:04X}"):
                return True
    return False


def udp_bound(port):
    """rsockets of datagrams are found by a port of UDP."""
    path = pathlib.Path("/proc/net/udp")
    return any(line.split()[1].endswith(f":{port:04X}")
               for line in path.read_text().splitlines()[1:])


def rdma_cm_listens(port):
    """weft takes a port of rdma_cm by the name of a socket: @weft/cm/<space>/<port>/<address>"""
    names = pathlib.Path("/proc/net/unix").read_text()
    return re.search(rf"@weft/cm/\w+/{port}/", names) is not None


def listens(port):
    return tcp_listens(port) or rdma_cm_listens(port) or udp_bound(port)
