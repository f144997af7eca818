"""The packages in bare systems, which have nothing but what every Debian has, perftest, and no network
but loopback: from the tarball to a running ib_write_bw in two commands, where there is not even a C++
library; and installed as Debian packages, used, and removed without a trace. Each as root and as
somebody who may do nothing; the GitHub action as the latter,
and what the Dockerfile makes as nobody.

    systems.py --packages build/packages --images build/systems [--suite host]..."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bare_system import BareSystem, make_image

USERS = (0, 4711)
NOBODY = 65534
WRITE = """
timeout 100 {weft} run -- ib_write_bw --iters 1000 >/tmp/server.log 2>&1 &
server=$!
for i in $(seq 50); do
  # A bare system knows no name, not even localhost.
  timeout 60 {weft} run -- ib_write_bw --iters 1000 127.0.0.1 >/tmp/client.log 2>&1 && break
  sleep 0.2
done
wait $server && grep -A1 '#bytes' /tmp/client.log; status=$?
[ $status = 0 ] || cat /tmp/server.log /tmp/client.log
rm -f /tmp/server.log /tmp/client.log
exit $status
"""


# The GitHub action's own steps, and a job's step behind them.
ACTION = """
cd $(mktemp -d) && export RUNNER_TEMP=$PWD GITHUB_PATH=$PWD/path GITHUB_ENV=$PWD/env GITHUB_OUTPUT=$PWD/output &&
WEFT_ARCHIVE=/tmp/{tarball} /tmp/action/install &&
export PATH=$(cat path):$PATH && /tmp/action/check"""
STEPS = Path(__file__).resolve().parents[2] / "integrations/github"


def write_with(system: BareSystem, weft: str, user: int, before: str = "true") -> str:
    """Empty where a pair wrote as it should."""
    ended = system.run(f"{before} || exit 1\n" + WRITE.format(weft=weft), user)
    return "" if ended.returncode == 0 else f"user {user}, {weft}: {ended.stdout}"


def try_tarball(system: BareSystem, tarball: Path) -> list[str]:
    # Nothing in a system of this kind needs the C++ library: it can go, to see that weft does not.
    system.run("dpkg --purge --force-all libstdc++6 libgcc-s1")
    if any(system.root.glob("usr/lib/**/libstdc++.so*")):
        return ["the C++ library is still there"]
    (system.root / "tmp" / tarball.name).write_bytes(tarball.read_bytes())
    problems = []
    for user in USERS:
        folder = f"/tmp/of-{user}"
        unpack = f"mkdir {folder} && cd {folder} && tar xf /tmp/{tarball.name}"
        problems.append(write_with(system, "./weft-*/bin/weft", user, unpack))
    shutil.copytree(STEPS, system.root / "tmp/action")
    problems.append(write_with(system, "weft", USERS[1], ACTION.format(tarball=tarball.name)))
    # As integrations/docker/Dockerfile has it.
    made = system.run(f"tar xf /tmp/{tarball.name} -C /opt && ln -s /opt/weft-*/bin/weft /usr/local/bin/weft")
    problems.append(made.stdout if made.returncode != 0 else
                    write_with(system, "/usr/local/bin/weft", NOBODY))
    return problems


def try_debs(system: BareSystem, debs: list[Path]) -> list[str]:
    before = system.files()
    for deb in debs:
        (system.root / "tmp" / deb.name).write_bytes(deb.read_bytes())
    names = " ".join(f"/tmp/{deb.name}" for deb in debs)
    installed = system.run(f"dpkg --install {names}")
    if installed.returncode != 0:
        return [installed.stdout]
    problems = [write_with(system, "weft", user) for user in USERS]
    packages = " ".join(deb.name.split("_")[0] for deb in debs)
    removed = system.run(f"dpkg --purge {packages}")
    if removed.returncode != 0:
        problems.append(removed.stdout)
    after = system.files()
    problems += [f"left behind, or changed: /{path}" for path in sorted(before.keys() | after.keys())
                 if before.get(path) != after.get(path)]
    return problems


def try_suite(suite: str, packages: Path, images: Path, work: Path) -> list[str] | None:
    """What is wrong; None where there is no such system to be had."""
    own = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True,
                         check=True).stdout.strip()
    image = images / f"{suite}-{own}.tar"
    included = "perftest,libibverbs1,librdmacm1,libstdc++6,libibverbs-dev"
    if not image.exists() and not make_image(suite, own, included, image):
        return None
    tarball = packages / f"weft-linux-{os.uname().machine}.tar.gz"
    debs = [*packages.glob(f"weft_*_{own}.deb"), *packages.glob(f"libweft*_{own}.deb"),
            *packages.glob("weft-doc_*_all.deb")]
    problems = []
    with BareSystem(work, image) as system:
        problems += try_tarball(system, tarball)
    with BareSystem(work, image) as system:
        problems += try_debs(system, debs)
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help="made once, and kept here")
    parser.add_argument("--suite", action="append", help="host, or a name that mmdebstrap knows")
    given = parser.parse_args()
    given.images.mkdir(parents=True, exist_ok=True)
    problems = []
    with tempfile.TemporaryDirectory(prefix="weft-systems-") as work:
        for suite in given.suite or ["host", "noble"]:
            found = try_suite(suite, given.packages, given.images, Path(work))
            if found is None:
                print(f"{suite}: NOT TRIED: its packages cannot be had, or not be trusted, here")
                if suite == "host":
                    problems.append("host: no bare system")
                continue
            found = [problem for problem in found if problem]
            print(f"{suite}: {'fails' if found else 'works'}")
            problems += [f"{suite}: {problem}" for problem in found]
    for problem in problems:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
