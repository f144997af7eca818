"""Channels between two network namespaces that a veth pair joins, over UDP: `namespaces.py BIN_FOLDER
[arguments of weft bench channel]`. Makes the namespaces and takes them away; needs the right to."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "same_host"))
import commands  # noqa: E402  pylint: disable=wrong-import-position

ADDRESSES = ("10.213.78.1", "10.213.78.2")


@contextlib.contextmanager
def two_namespaces():
    """Their names; they go at the end of the block."""
    names = [f"weft-channel-{os.getpid()}-{side}" for side in "ab"]
    steps = [["ip", "netns", "add", name] for name in names]
    steps.append(["ip", "link", "add", "v0", "netns", names[0], "type", "veth", "peer", "name", "v0",
                  "netns", names[1]])
    for name, address in zip(names, ADDRESSES):
        steps += [["ip", "-n", name, "addr", "add", f"{address}/24", "dev", "v0"],
                  ["ip", "-n", name, "link", "set", "lo", "up"],
                  ["ip", "-n", name, "link", "set", "v0", "up"]]
    try:
        try:
            for step in steps:
                subprocess.run(step, check=True, capture_output=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            sys.exit("no network namespaces here")
        time.sleep(0.5)
        yield names
    finally:
        for name in names:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=10,
                               check=False)


def side(bin_folder, namespace, address, name, pipes, arguments):
    """The command of one side. `--address` is where the first one listens."""
    return ["ip", "netns", "exec", namespace, str(bin_folder / "weft"), "run", "--device",
            f"weft0={address}", "--", str(bin_folder / "weft-channel"), "bench", "--side", name,
            "--in", str(pipes[0]), "--out", str(pipes[1]), "--address", ADDRESSES[0], *arguments]


def main():
    bin_folder, arguments = pathlib.Path(sys.argv[1]), sys.argv[2:]
    down, up = os.pipe(), os.pipe()
    for fd in (*down, *up):
        os.set_inheritable(fd, True)
    with two_namespaces() as names:
        here = side(bin_folder, names[0], ADDRESSES[0], "here", (up[0], down[1]), arguments)
        there = side(bin_folder, names[1], ADDRESSES[1], "there", (down[0], up[1]), arguments)
        with commands.started(there, inherit=True):
            print(commands.output_of(here, inherit=True), end="")


if __name__ == "__main__":
    main()
