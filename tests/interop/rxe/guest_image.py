"""What the guest starts from: Debian's kernel package, unpacked and not installed, and an initial
file system with its rxe modules, busybox and the RDMA programs of this machine. Made once, in a
folder that is kept."""

import gzip
import os
import pathlib
import re
import shutil
import stat
import subprocess

HERE = pathlib.Path(__file__).parent
MODULES = ("crc32_generic", "crc32_pclmul", "virtio_pci", "virtio_net", "virtio_console", "rdma_rxe", "ib_uverbs",
           "rdma_ucm", "ib_umad")
PROGRAMS = ("ibv_devinfo", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
            "ibv_srq_pingpong", "rping", "ucmatose", "udaddy", "ib_send_bw", "ib_send_lat",
            "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw",
            "ib_atomic_lat", "rdma")
PROVIDER = "libibverbs/librxe-rdmav34.so"


def kernel_package():
    words = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], check=True,
                           capture_output=True, text=True).stdout
    return re.search(r"Depends: (linux-image-\S+)", words).group(1)


def unpack_kernel(folder):
    """The unpacked package; downloaded unless an earlier run did."""
    root = folder / "kernel"
    if not list(root.glob("boot/vmlinuz-*")):
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["apt-get", "-q", "download", kernel_package()], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        package = next(folder.glob("linux-image-*.deb"))
        subprocess.run(["dpkg", "-x", package, root], check=True)
        package.unlink()
    return root


def depends(module):
    """The names in a module's own list of what it needs."""
    found = re.search(rb"\0depends=([^\0]*)\0", module.read_bytes())
    return [name for name in found.group(1).decode().split(",") if name] if found else []


def in_order(root):
    """The files of MODULES and of what they need, each after what it needs."""
    files = {path.stem.replace("-", "_"): path for path in root.rglob("*.ko")}
    order = []

    def add(name):
        path = files.get(name)
        if path is None or path in order:  # what is no file is built in
            return
        for needed in depends(path):
            add(needed)
        order.append(path)

    for name in MODULES:
        add(name)
    return order


def libraries(paths):
    """What these programs are linked with, by the paths under which they look for it."""
    found = set()
    for path in paths:
        words = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        found |= set(re.findall(r"(?:=> )?(/\S+) \(0x", words))
    return sorted(found)


def find_program(name):
    path = shutil.which(name, path=os.environ["PATH"] + ":/sbin:/usr/sbin")
    if path is None:
        raise SystemExit(f"{name} is missing: scripts/bootstrap interop installs it")
    return pathlib.Path(path).resolve()


class Archive:
    """A cpio archive ("newc"), the form of an initial file system."""

    def __init__(self):
        self.data, self.number, self.made = bytearray(), 0, set()

    def entry(self, name, mode, content=b""):
        self.number += 1
        raw = name.encode() + b"\0"
        fields = (self.number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw), 0)
        self.data += b"070701" + b"".join(b"%08x" % field for field in fields) + raw
        self.data += bytes(-len(self.data) % 4) + content
        self.data += bytes(-len(self.data) % 4)

    def folder(self, name):
        if name in ("", ".") or name in self.made:
            return
        self.folder(os.path.dirname(name))
        self.made.add(name)
        self.entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, content, mode=0o755):
        name = name.lstrip("/")
        if name in self.made:
            return
        self.folder(os.path.dirname(name))
        self.made.add(name)
        self.entry(name, stat.S_IFREG | mode, content)

    def finish(self):
        self.entry("TRAILER!!!", 0)
        return gzip.compress(bytes(self.data), 1)


def initial_files(kernel, extra):
    """The archive; `extra` are further programs."""
    archive = Archive()
    for folder in ("proc", "sys", "dev", "tmp", "bin", "usr/bin", "etc"):
        archive.folder(folder)
    archive.file("init", (HERE / "init.sh").read_bytes())
    archive.file("bin/busybox", find_program("busybox").read_bytes())
    archive.entry("bin/sh", stat.S_IFLNK | 0o777, b"busybox")
    programs = [find_program(name) for name in PROGRAMS] + list(extra)
    for path in programs:
        archive.file(f"usr/bin/{path.name}", path.read_bytes())
    provider = next(pathlib.Path("/usr/lib").glob(f"*/{PROVIDER}"))
    archive.file(str(provider), provider.read_bytes())
    archive.file("etc/libibverbs.d/rxe.driver", b"driver rxe\n")
    threads = next(pathlib.Path("/lib").glob("*-linux-gnu/libgcc_s.so.1"))  # ends threads
    for path in [*libraries([*programs, provider]), str(threads)]:
        archive.file(path, pathlib.Path(path).read_bytes())
    modules = in_order(kernel)
    for path in modules:
        archive.file(f"modules/{path.name}", path.read_bytes(), 0o644)
    archive.file("modules/order", "\n".join(path.name for path in modules).encode() + b"\n", 0o644)
    return archive.finish()


def make(folder, extra=()):
    """(kernel, initial file system)."""
    folder.mkdir(parents=True, exist_ok=True)
    root = unpack_kernel(folder)
    image = folder / "initial.gz"
    image.write_bytes(initial_files(root, extra))
    return next(root.glob("boot/vmlinuz-*")), image
