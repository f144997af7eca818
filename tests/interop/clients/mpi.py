"""Open MPI and MPICH: our programs (mpi_ring.c of two ranks, mpi_patterns.c of four), built by their
compilers, over each of the ways they have to reach an RDMA device. Shared memory and TCP are switched
off."""

import pathlib
import subprocess

from case import Case, words

PACKAGES = ("openmpi-bin", "mpich")
CLIENT = "MPI"
SOURCES = pathlib.Path(__file__).parent.parent


def ucx(transports):
    return (("UCX_TLS", f"{transports},self"), ("UCX_NET_DEVICES", "weft0:1"),
            ("UCX_WARN_UNUSED_ENV_VARS", "n"))


def open_mpirun(ranks):
    return (f"mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n {ranks} "
            "--mca oob_tcp_if_include lo --mca btl_base_warn_component_unused 0")


def mpich_mpirun(ranks):
    return f"mpirun.mpich -launcher fork -iface lo -n {ranks}"


UCX = ucx("rc_verbs,ud_verbs")
OVER_UCX = "--mca pml ucx --mca osc ucx"
# MPICH takes shared memory between processes of one host unless it is told not to.
NOT_LOCAL = ("MPIR_CVAR_NOLOCAL", "1")
OPEN_MPI = open_mpirun(2)
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


def build(name, compiler):
    """A function that builds one of our programs, once for each change of its source."""
    source = SOURCES / f"mpi_{name}.c"

    def prepare(_folder, tools):
        program = pathlib.Path(tools) / f"{name}.{compiler}"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            subprocess.run([compiler, "-std=c11", "-O1", "-w", "-o", program, source],
                           check=True)
    return prepare


def ring(name, compiler, command, **more):
    program = f"{{tools}}/ring.{compiler}"
    return Case(CLIENT, name, words(command, program), expect=r"^ring: all right, 2 ranks",
                needs=(compiler,), prepare=build("ring", compiler), timeout_s=90, **more)


def patterns(name, compiler, command, transports):
    """Four ranks, more than many machines have cores, which all connect at once."""
    program = f"{{tools}}/patterns.{compiler}"
    return Case(CLIENT, f"{name}, {transports}, 4 ranks", words(command, program),
                expect=r"^patterns: all right, 4 ranks", needs=(compiler,),
                prepare=build("patterns", compiler), env=(*ucx(transports), NOT_LOCAL),
                timeout_s=180)


def open_mpi(way, options, **more):
    return ring(f"Open MPI, {way}", "mpicc.openmpi", f"{OPEN_MPI} {options}", **more)


def open_mpi_openib(way, options):
    return open_mpi(way, f"{OPENIB} {ZEROED_HEAP} {options}", weft=words("--link-layer ib"),
                    remark=OPENIB_REMARK)


def dying(way, compiler, command, **more):
    """Rank 1 kills itself in the middle."""
    return Case("kill -9", f"{way}, a rank is killed",
                words(command, f"{{tools}}/ring.{compiler}", "die"), needs=(compiler,),
                prepare=build("ring", compiler), timeout_s=60, killed="itself", **more)


CASES = (
    open_mpi("pml ucx", OVER_UCX, env=UCX),
    open_mpi("mtl ofi", "--mca pml cm --mca mtl ofi --mca osc pt2pt "
             "--mca mtl_ofi_provider_include verbs;ofi_rxm"),
    open_mpi_openib("btl openib", ""),
    open_mpi_openib("btl openib, no warning about the device",
                    "--mca btl_openib_warn_no_device_params_found 0"),
    ring("MPICH, ucx", "mpicc.mpich", mpich_mpirun(2), env=(*UCX, NOT_LOCAL)),
    *(case for transports in ("ud_verbs", "rc_verbs,ud_verbs") for case in (
        patterns("Open MPI, pml ucx", "mpicc.openmpi", f"{open_mpirun(4)} {OVER_UCX}", transports),
        patterns("MPICH, ucx", "mpicc.mpich", mpich_mpirun(4), transports))),
)
DYING_CASES = (
    dying("Open MPI, pml ucx", "mpicc.openmpi", f"{OPEN_MPI} {OVER_UCX}", env=UCX),
    dying("MPICH, ucx", "mpicc.mpich", mpich_mpirun(2), env=(*UCX, NOT_LOCAL)),
)
