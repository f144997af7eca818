"""Every C++ file is as clang-format would write it. The style's reference is clang-format 14: other
versions break lines elsewhere, so where only another one is installed the check is skipped, and
where there is none it fails."""

import re
import shutil
import subprocess
import sys

import tree

VERSION = "14"


def find_clang_format():
    found = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    if not found:
        sys.exit("clang-format is not installed (scripts/bootstrap test installs it)")
    output = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version (\d+)", output).group(1)
    if version != VERSION:
        print(f"clang-format is version {version}; the style is that of version {VERSION}")
        sys.exit(tree.SKIPPED)
    return found


def main():
    root = tree.parse_root(__doc__)
    clang_format = find_clang_format()
    paths = tree.files(root, ".h", ".cc")
    problems = []
    for start in range(0, len(paths), 100):
        run = subprocess.run([clang_format, "--dry-run", "-Werror", *paths[start:start + 100]],
                             cwd=root, capture_output=True, text=True, check=False)
        problems += [line for line in run.stderr.splitlines() if ": error:" in line]
        if run.returncode and not problems:
            problems.append(run.stderr)
    if problems:
        names = sorted({problem.split(":")[0] for problem in problems})
        print("to repair: clang-format -i " + " ".join(names))
    tree.finish(problems, len(paths))


main()
