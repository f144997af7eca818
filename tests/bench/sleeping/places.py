"""Where the two processes of a comparison live, and how a command is started there: on this host by
shared memory, on this host as frames over a loopback socket, or in two network namespaces that a
veth pair joins."""

import contextlib
import itertools
import os
import subprocess

CLIENT, SERVER = 0, 1  # also the cores that they are pinned to
VETH_ADDRESSES = ("10.213.79.1", "10.213.79.2")
VETH_DEVICE = "v0"
STEP_BOUND_S = 10

ports = itertools.count(21000 + os.getpid() % 9000)


class Place:
    """`plain` starts a program as it is, `weft` under `weft run`."""

    def __init__(self, name, weft, *, env=(), namespaces=None, addresses=("127.0.0.1",) * 2):
        self.name, self.addresses = name, addresses
        self._weft, self._env, self._namespaces = str(weft), env, namespaces

    @property
    def server_address(self):
        return self.addresses[SERVER]

    def plain(self, side, words):
        enter = ["ip", "netns", "exec", self._namespaces[side]] if self._namespaces else []
        return [*enter, *map(str, words)]

    def weft(self, side, words, options=()):
        """`options` are those of `weft run`."""
        device = ["--device", f"weft0={self.addresses[side]}"] if self._namespaces else []
        return self.plain(side, ["env", *self._env, self._weft, "run", *device, *options, "--",
                                 *words])


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=STEP_BOUND_S)


@contextlib.contextmanager
def _two_namespaces():
    """Their names. They go at the end of the block, with the veth pair in them."""
    names = [f"weft-sleeping-{os.getpid()}-{side}" for side in "ab"]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", VETH_DEVICE, "netns", names[0], "type", "veth",
            "peer", "name", VETH_DEVICE, "netns", names[1])
        for name, address in zip(names, VETH_ADDRESSES):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", VETH_DEVICE)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", VETH_DEVICE, "up")
        yield names
    finally:
        for name in names:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                _ip("netns", "del", name)


@contextlib.contextmanager
def all_places(bin_folder):
    """The places by name, and why one is missing. Without the right to make namespaces there is no
    veth."""
    weft = bin_folder / "weft"
    found = {"shm": Place("shm", weft),
             "loopback": Place("loopback", weft, env=("WEFT_PATH=framed",))}
    missing = {}
    with contextlib.ExitStack() as stack:
        try:
            names = stack.enter_context(_two_namespaces())
            found["veth"] = Place("veth", weft, namespaces=names, addresses=VETH_ADDRESSES)
        except subprocess.CalledProcessError as failure:
            missing["veth"] = failure.stderr.strip() or "no network namespaces here"
        except (OSError, subprocess.SubprocessError) as failure:
            missing["veth"] = f"no network namespaces here: {failure}"
        yield found, missing
