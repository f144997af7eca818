"""What `weft run` costs a program that never opens a device: memory, with a bound, because it is the
same each time; and time, which is only told: a busy machine is not weft's fault.

    start_cost.py --weft build/release/bin/weft --rdma build/release/lib/libweft-rdma.so"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

MOST_MEMORY_KB = 1024
ROUNDS = 40


def figures_of(rollup: str) -> dict[str, int]:
    """The lines of /proc/PID/smaps_rollup, in kB."""
    figures = {}
    for line in rollup.splitlines()[1:]:
        name, value = line.split(":")
        figures[name] = int(value.split()[0])
    return figures


def memory_of(library: Path | None) -> dict[str, int]:
    """Of a program that waits for its input, when it has come so far."""
    environment = {**os.environ, "LD_PRELOAD": str(library or "")}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environment) as program:
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write(b"x")
        program.stdin.flush()
        program.stdout.read(1)  # it copied one byte: it has started
        figures = figures_of(Path(f"/proc/{program.pid}/smaps_rollup").read_text())
        program.stdin.close()
    return figures


def private_kb(figures: dict[str, int]) -> int:
    """What is kept for this process alone. Pages of files are not, although those of a library that was
    written a moment ago count as dirty."""
    return figures["Anonymous"]


def quickest_ms(command: list[str | Path], environment: dict[str, str]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        subprocess.run(command, env={**os.environ, **environment}, check=True)
        best = min(best, time.perf_counter() - begun)
    return best * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weft", type=Path, required=True)
    parser.add_argument("--rdma", type=Path, required=True)
    given = parser.parse_args()
    plain, preloaded = memory_of(None), memory_of(given.rdma.resolve())
    cost = private_kb(preloaded) - private_kb(plain)
    print(f"a preloaded library costs {cost} kB of memory of its own, "
          f"{preloaded['Rss'] - plain['Rss']} kB with what processes share")
    bare = quickest_ms(["/bin/true"], {})
    print(f"and {quickest_ms(['/bin/true'], {'LD_PRELOAD': str(given.rdma.resolve())}) - bare:.2f}"
          f" ms; `weft run` takes "
          f"{quickest_ms([given.weft, 'run', '--', '/bin/true'], {}) - bare:.2f} ms in all")
    if not 0 < cost < MOST_MEMORY_KB:
        sys.exit(f"it should be less than {MOST_MEMORY_KB} kB, and more than nothing")


if __name__ == "__main__":
    main()
