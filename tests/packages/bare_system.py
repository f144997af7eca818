"""A bare Debian or Ubuntu in memory, made by scripts/bare_system and entered without any network but
loopback."""

import os
import subprocess
from pathlib import Path
from types import TracebackType

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
# What changes whenever packages come and go, and what does not belong to the system's files.
NOT_COMPARED = ("proc", "sys", "dev", "tmp", "run", "var/log", "var/cache", "var/lib/dpkg", "root")
# Mounts and network of its own, gone with the last process.
ENTER = """
set -e
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/dev/shm"
ip link set lo up
root=$1 user=$2
shift 2
exec chroot --userspec="$user:$user" --groups= "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "$@"
"""


class BareSystem:
    """Unpacked from an image; lives from `with` to its end."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.root = folder / "root"
        self.image = image

    def __enter__(self) -> "BareSystem":
        self.root.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3g,mode=755", "weft-bare", self.root],
                       check=True)
        subprocess.run(["tar", "-C", self.root, "-xpf", self.image, "--numeric-owner"], check=True)
        (self.root / "dev/shm").mkdir(exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        subprocess.run(["umount", "--lazy", self.root], check=True)
        self.root.rmdir()

    def run(self, command: str, user: int = 0) -> "subprocess.CompletedProcess[str]":
        """By the system's shell; with what it printed."""
        return subprocess.run(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--ipc",
             "sh", "-c", ENTER, "sh", self.root, str(user), "sh", "-c", command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600,
            stdin=subprocess.DEVNULL)

    def files(self) -> dict[str, str]:
        """Each file with what tells whether it is still the same."""
        found = {}
        for folder, names, files in os.walk(self.root):
            relative = Path(folder).relative_to(self.root)
            names[:] = [n for n in names if str(relative / n) not in NOT_COMPARED]
            for name in [*names, *files]:
                path = Path(folder) / name
                status = path.lstat()
                size = 0 if path.is_dir() or name == "ld.so.cache" else status.st_size
                found[str(relative / name)] = f"{status.st_mode:o} {size}"
        return found


def make_image(suite: str, architecture: str, packages: str, image: Path) -> bool:
    """`suite` is `host` or a name that mmdebstrap knows. False where it cannot be made; says why."""
    part = image.with_suffix(".part.tar")
    ended = subprocess.run(
        [SCRIPTS / "bare_system", part, suite, architecture, "essential", packages],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ended.returncode != 0:
        print("\n".join(ended.stdout.splitlines()[-5:]))
        part.unlink(missing_ok=True)
        return False
    part.rename(image)
    return True
