"""Open MPI and MPICH: our ring program (mpi_ring.c), built by their compilers, over each of the
ways they have to reach an RDMA device. Shared memory and TCP are switched off."""

import pathlib
import subprocess

from case import Case, words

PACKAGES = ("openmpi-bin", "mpich")
CLIENT = "MPI"
SOURCE = pathlib.Path(__file__).parent.parent / "mpi_ring.c"
UCX = (("UCX_TLS", "rc_verbs,ud_verbs,self"), ("UCX_NET_DEVICES", "weft0:1"),
       ("UCX_WARN_UNUSED_ENV_VARS", "n"))
OPEN_MPI = ("mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n 2 "
            "--mca oob_tcp_if_include lo --mca btl_base_warn_component_unused 0")
OPENIB = ("--mca pml ob1 --mca btl openib,self --mca btl_openib_allow_ib 1 "
          "--mca osc rdma,pt2pt")
# Open MPI 4.1.4 counts the users of a device in a field (allowed_btls) that its constructor leaves
# as malloc gave it. Unless that was 0, MPI_Finalize keeps the device's registrations, unloads the
# code that would release them, and calls it: SIGSEGV, on any device. glibc gives zeros when asked;
# with another byte, such as perturb=100, every run crashes. It is asked for the ranks alone: it also
# overwrites what is freed, and mpirun itself uses some of that when a rank writes a warning.
ZEROED_HEAP = "-x GLIBC_TUNABLES=glibc.malloc.perturb=255:glibc.malloc.tcache_count=0"
OPENIB_REMARK = (f"with `{ZEROED_HEAP}`: it reads a counter that it never set, and crashes in "
                 "MPI_Finalize when that was not 0")
RIGHT = r"^ring: all right, 2 ranks"


def build(compiler):
    """A function that builds the ring program, once for each change of its source."""
    def prepare(_folder, tools):
        program = pathlib.Path(tools) / f"ring.{compiler}"
        if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
            subprocess.run([compiler, "-std=c11", "-O1", "-w", "-o", program, SOURCE],
                           check=True)
    return prepare


def ring(name, compiler, command, **more):
    program = f"{{tools}}/ring.{compiler}"
    return Case(CLIENT, name, words(command, program), expect=RIGHT, needs=(compiler,),
                prepare=build(compiler), timeout_s=90, **more)


def open_mpi(way, options, **more):
    return ring(f"Open MPI, {way}", "mpicc.openmpi", f"{OPEN_MPI} {options}", **more)


def open_mpi_openib(way, options):
    return open_mpi(way, f"{OPENIB} {ZEROED_HEAP} {options}", weft=words("--link-layer ib"),
                    remark=OPENIB_REMARK)


def dying(way, compiler, command, **more):
    """Rank 1 kills itself in the middle."""
    return Case("kill -9", f"{way}, a rank is killed",
                words(command, f"{{tools}}/ring.{compiler}", "die"), needs=(compiler,),
                prepare=build(compiler), timeout_s=60, killed="itself", **more)


CASES = (
    open_mpi("pml ucx", "--mca pml ucx --mca osc ucx", env=UCX),
    open_mpi("mtl ofi", "--mca pml cm --mca mtl ofi --mca osc pt2pt "
             "--mca mtl_ofi_provider_include verbs;ofi_rxm"),
    open_mpi_openib("btl openib", ""),
    open_mpi_openib("btl openib, no warning about the device",
                    "--mca btl_openib_warn_no_device_params_found 0"),
    ring("MPICH, ucx", "mpicc.mpich", "mpirun.mpich -launcher fork -iface lo -n 2",
         env=(*UCX, ("MPIR_CVAR_NOLOCAL", "1"))),
)
DYING_CASES = (
    dying("Open MPI, pml ucx", "mpicc.openmpi", f"{OPEN_MPI} --mca pml ucx --mca osc ucx", env=UCX),
    dying("MPICH, ucx", "mpicc.mpich", "mpirun.mpich -launcher fork -iface lo -n 2",
          env=(*UCX, ("MPIR_CVAR_NOLOCAL", "1"))),
)
