"""Programs that bring what weft brings, too, in other ways: fmt and spdlog as libraries and within
them, clang's C++ library, Go, Python; and one that would stop if anything of weft took its functions.

    programs.py --weft build/release/bin/weft [--only NAME]..."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "programs"
CXX = ["-std=c++20", "-O1", "-Wno-deprecated-declarations"]
LOGGING = SOURCES / "logging.cc"
HEADERS_ALONE = ["-DFMT_HEADER_ONLY", "-DSPDLOG_FMT_EXTERNAL"]
# Of a program: the tool that builds it, its arguments but for the output; nothing to be built.
BUILDS: dict[str, list[str | Path]] = {
    "fmt_within": ["g++", *CXX, *HEADERS_ALONE, LOGGING, "-libverbs"],
    "all_within": ["g++", *CXX, *HEADERS_ALONE, "-static-libstdc++", "-static-libgcc", LOGGING,
                   "-libverbs"],
    "fmt_beside": ["g++", *CXX, "-DFMT_SHARED", "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_SHARED_LIB",
                   "-DSPDLOG_FMT_EXTERNAL", LOGGING, "-lspdlog", "-lfmt", "-libverbs"],
    "libcxx": ["clang++", *CXX, "-stdlib=libc++", *HEADERS_ALONE, LOGGING, "-libverbs"],
    "clashing": ["g++", *CXX, "-rdynamic", SOURCES / "clashing.cc", "-libverbs"],
    "go": ["go", "build", SOURCES / "devices.go"],
}
NAMES = [*BUILDS, "pyverbs"]


def build(name: str, folder: Path) -> list[str | Path]:
    """Gives the command that starts the program."""
    if name == "pyverbs":
        return ["/usr/bin/python3", SOURCES / "devices_pyverbs.py"]
    tool, *arguments = BUILDS[name]
    if not shutil.which(str(tool)):
        sys.exit(f"{tool} is missing: scripts/bootstrap package installs it")
    program = folder / name
    if tool == "go":
        command = [tool, arguments[0], "-o", program, *arguments[1:]]
    else:
        command = [tool, *arguments, "-o", program]
    environment = {**os.environ, "GOCACHE": str(folder / "go-cache"), "GO111MODULE": "off"}
    subprocess.run(command, check=True, timeout=600, env=environment)
    return [program]


def problem_of(name: str, weft: Path, folder: Path) -> str:
    """Empty where the program did what it should."""
    ended = subprocess.run([weft, "run", "--", *build(name, folder)], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
    words = ended.stdout.split()
    if ended.returncode == 0 and "opened" in words and "weft0" in words:
        return ""
    return f"{name}: ended with {ended.returncode}:\n{ended.stdout}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weft", type=Path, required=True)
    parser.add_argument("--only", choices=NAMES, action="append")
    given = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory(prefix="weft-programs-") as folder:
        for name in given.only or NAMES:
            problem = problem_of(name, given.weft.resolve(), Path(folder))
            print(problem or f"{name}: works", flush=True)
            problems += [problem] if problem else []
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
