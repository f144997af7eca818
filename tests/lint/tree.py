"""What the checks of the tree share: the command line, the list of files, and how to report."""

import argparse
import os
import pathlib
import subprocess
import sys

SKIPPED = 77


def parse_root(description):
    """Reads --root, the top of the tree to check."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    return parser.parse_args().root.resolve()


def files(root, *suffixes):
    """Files of the project below root: those that git knows or would add, or, where there is no
    git, all that are not in a build folder. Sorted, relative to root."""
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False) if (root / ".git").exists() else None
    if listing is not None and listing.returncode == 0:
        names = [pathlib.Path(name) for name in listing.stdout.split("\0") if name]
    else:
        names = []
        for folder, subfolders, leaves in os.walk(root):
            subfolders[:] = [s for s in subfolders if not s.startswith((".", "build"))]
            names += [(pathlib.Path(folder) / leaf).relative_to(root) for leaf in leaves]
    return sorted({n for n in names if n.suffix in suffixes and (root / n).is_file()})


def finish(problems, checked):
    """Prints the problems and ends the program. A check that found nothing to check has failed."""
    for problem in problems:
        print(problem)
    if not checked:
        print("nothing to check: is --root the top of the project?")
    print(f"{checked} checked, {len(problems)} problems")
    sys.exit(1 if problems or not checked else 0)
