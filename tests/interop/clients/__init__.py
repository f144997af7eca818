"""The programs that we run, one module for each project they come from. A module has CASES, and
PACKAGES: the Debian packages whose versions the generated page names."""

import subprocess

from clients import (fio, ibverbs_utils, killed, libfabric, mpi, perftest, qperf, rdmacm_utils,
                     ucx)

MODULES = (ibverbs_utils, perftest, rdmacm_utils, ucx, libfabric, mpi, qperf, fio, killed)


def all_cases():
    cases = [case for module in MODULES for case in module.CASES]
    names = [case.name for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"two cases of one name: {twice}"
    return cases


def versions():
    """The packages' upstream versions, of those that are installed."""
    found = {}
    for package in (name for module in MODULES for name in module.PACKAGES):
        query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                               capture_output=True, text=True, check=False)
        if query.returncode == 0 and query.stdout:
            found[package] = query.stdout.split(":")[-1].rsplit("-", 1)[0]
    return found
