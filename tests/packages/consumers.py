"""Projects of others, built against weft as it is installed: with CMake and with pkg-config, with g++
and with clang++, from a folder that was moved after the installation. Then it is uninstalled, and
nothing is left.

    consumers.py --build build/release [--only cmake.g++]"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = {"verbs": "weft-verbs", "channel": "weft-channel", "devices": "weft-rdma"}
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
SKIPPED = 77


def run(*command: str | Path, environment: dict[str, str] | None = None,
        folder: Path | None = None) -> str:
    """Gives what it printed; stops the test when it fails."""
    ended = subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           check=False, timeout=600)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {ended.returncode}:\n{ended.stdout}")
    return ended.stdout


def foreign_headers(listed: str, prefix: Path) -> list[str]:
    """Of what a compiler's -M lists, the headers of the packages that weft is built with."""
    return [word for word in listed.split() if not word.startswith(str(prefix))
            and any(f"/{package}/" in word for package in ("tl", "fmt", "spdlog", "nlohmann"))]


def library_folder(prefix: Path) -> str:
    return str(next(prefix.glob("lib*/**/libweft.so")).parent)


def build_with_cmake(compiler: str, prefix: Path, work: Path) -> Path:
    build = work / f"cmake-{compiler}"
    run("cmake", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_FLAGS={' '.join(STRICT)}",
        "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF")
    run("cmake", "--build", build)
    run("ctest", "--test-dir", build, "--output-on-failure",
        environment={"LD_LIBRARY_PATH": library_folder(prefix)})
    return build


def build_with_pkg_config(compiler: str, prefix: Path, work: Path) -> Path:
    build = work / f"pkg-config-{compiler}"
    build.mkdir()
    found = next(prefix.glob("lib*/**/pkgconfig"))
    for program, package in PROGRAMS.items():
        flags = run("pkg-config", "--cflags", "--libs", package,
                    environment={"PKG_CONFIG_PATH": str(found)}).split()
        extra = ["-libverbs"] if program == "devices" else []
        source = HERE / "consumer" / f"{program}.cc"
        run(compiler, *STRICT, source, "-o", build / program, *flags, *extra)
        if foreign := foreign_headers(run(compiler, *STRICT, "-M", source, flags[0]), prefix):
            sys.exit(f"{program} includes headers that weft does not install: {foreign}")
    return build


def use(build: Path, prefix: Path) -> None:
    """Runs what was built. Only channels are in need of `weft run`."""
    library_path = {"LD_LIBRARY_PATH": library_folder(prefix)}
    said = run(build / "verbs", environment=library_path)
    if "wrote; refused: " not in said:
        sys.exit(f"verbs said {said}")
    said = run(build / "devices", environment=library_path)
    if said != "opened weft0\n":
        sys.exit(f"devices said {said}")
    said = run(prefix / "bin/weft", "run", "--", build / "channel", environment=library_path)
    if "hello\n" not in said:
        sys.exit(f"channel said {said}")


WAYS = {"cmake": build_with_cmake, "pkg-config": build_with_pkg_config}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--compiler", required=True)
    given = parser.parse_args()
    for tool in (given.compiler, "pkg-config"):
        if not shutil.which(tool):
            print(f"{tool} is missing: scripts/bootstrap test installs it")
            return SKIPPED
    with tempfile.TemporaryDirectory(prefix="weft-consumers-") as name:
        work = Path(name)
        run("cmake", "--install", given.build, "--prefix", work / "first")
        prefix = work / "moved"
        (work / "first").rename(prefix)
        use(WAYS[given.way](given.compiler, prefix, work), prefix)
    return 0


if __name__ == "__main__":
    sys.exit(main())
