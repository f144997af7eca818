"""Every public function of libibverbs that takes one of its objects is exported by libweft-rdma.so.
One that is not would reach the real library with an object that it does not know, and crash. Both
the installed library and the newest release that we know are asked: a new release fails this check
until its functions are exported, or stand in a list below with the reason.

    symbols.py --library build/lib/libweft-rdma.so"""

import argparse
import ctypes.util
import re
import subprocess
import sys

SKIPPED = 77
PUBLIC_VERSION = re.compile(r"IBVERBS_1\.\d+$")

# They take numbers, names or plain structures: the real ones serve our programs as well.
WITHOUT_OBJECT = frozenset("""
ibv_copy_ah_attr_from_kern ibv_copy_path_rec_from_kern ibv_copy_path_rec_to_kern
ibv_copy_qp_attr_from_kern
ibv_dofork_range ibv_dontfork_range ibv_fork_init ibv_is_fork_initialized
ibv_event_type_str ibv_node_type_str ibv_port_state_str ibv_wc_status_str
ibv_rate_to_mbps ibv_rate_to_mult mbps_to_ibv_rate mult_to_ibv_rate
ibv_get_sysfs_path ibv_read_sysfs_file
ibv_register_driver
""".split())

# They take an object of a kind that weft never gives to anybody.
WITHOUT_OUR_OBJECT = frozenset("""
ibv_dealloc_dmah ibv_free_buf ibv_export_buf_dmabuf_fd
ibv_destroy_comp_cntr ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_qp_attach_comp_cntr
ibv_read_comp_cntr ibv_read_err_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr
""".split())

# What releases after Debian 12's added: IBVERBS_1.15 to 1.18.
NEWER = frozenset("""
ibv_alloc_dmah ibv_dealloc_dmah ibv_reg_mr_ex
ibv_dm_export_dmabuf_fd ibv_query_port_speed
ibv_alloc_buf ibv_free_buf ibv_reg_buf_mr
_ibv_query_comp_cntr_caps ibv_create_comp_cntr ibv_destroy_comp_cntr ibv_export_buf_dmabuf_fd
ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_qp_attach_comp_cntr ibv_read_comp_cntr
ibv_read_err_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr
""".split())


def dynamic_symbols(library):
    """(name, version) of every function that a library defines; the version may be empty."""
    output = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True,
                            text=True, check=True).stdout
    for line in output.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[3] in ("FUNC", "IFUNC") and fields[6] != "UND":
            name, _, version = fields[7].partition("@")
            yield name, version.lstrip("@")


def installed_library():
    """The path of the installed libibverbs, or None."""
    name = ctypes.util.find_library("ibverbs")
    if not name:
        return None
    handle = ctypes.CDLL(name)
    del handle  # it stays loaded
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "libibverbs.so" in line)


def problems_of(ours, public):
    """What is wrong, given the names that we export and those that libibverbs does."""
    listed = WITHOUT_OBJECT | WITHOUT_OUR_OBJECT
    for name in sorted(public - ours - listed):
        yield f"{name} is public and neither exported nor listed"
    for name in sorted(listed & ours):
        yield f"{name} is exported: it needs no place in a list"
    for name in sorted(listed - public):
        yield f"{name} is listed, but no release has it"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    asked = parser.parse_args()
    installed = installed_library()
    if not installed:
        print("libibverbs is not installed")
        return SKIPPED
    public = {name for name, version in dynamic_symbols(installed)
              if PUBLIC_VERSION.match(version)}
    if not public:
        print(f"{installed} shows no public function")
        return 1
    ours = {name for name, _ in dynamic_symbols(asked.library)}
    problems = list(problems_of(ours, public | NEWER))
    print("\n".join(problems) or f"{len(public | NEWER)} public functions, all accounted for")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
