"""What was built for arm64 runs there: the same seed gives the same simulated world as on this machine.
It runs under an emulator of one process, which does not run threads as a processor does: `weft run`
and all that has threads are not tried.

    arm64.py --weft WEFT --arm64 WEFT --sysroot FOLDER"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

HASH = re.compile(r"trace hash\s+([0-9a-f]+)")
WORLDS = (["--seed", "7"], ["--seed", "7", "--weather", "storm"])


def trace_hash(command: list[str | Path]) -> str:
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                            timeout=1800).stdout
    match = HASH.search(output)
    if match is None:
        sys.exit(f"{' '.join(map(str, command))} told no trace hash:\n{output}")
    return match[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("weft", "arm64", "sysroot"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    for world in WORLDS:
        here = trace_hash([given.weft, "sim", *world])
        there = trace_hash(["qemu-aarch64-static", "-L", given.sysroot, given.arm64, "sim", *world])
        print(f"weft sim {' '.join(world)}: {here} here, {there} on arm64")
        if here != there:
            sys.exit("the worlds differ")
    print("Not tried on arm64: all that has threads, as `weft run`.")


if __name__ == "__main__":
    main()
