"""Every header compiles alone. Where x.cc exists and includes x.h before anything else, a build of
single files shows it; the other headers are compiled here, syntax only. The builds of `make test`
compile several files as one, so `make soak` sets WEFT_ALL_HEADERS, and all headers are compiled."""

import concurrent.futures
import os
import re
import subprocess

import tree

FIRST_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def shown_by_a_build(root, header):
    source = (root / header).with_suffix(".cc")
    if header.parts[0] != "src" or not source.is_file():
        return False
    first = FIRST_INCLUDE.search(source.read_text())
    return first is not None and first.group(1) == "/".join(header.parts[1:])


def compile_alone(root, header):
    """Gives the compiler's complaint, or None."""
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-I", root / "include",
               "-I", root / "src", "-include", root / header, "-x", "c++", "/dev/null"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{header}: does not compile alone\n{run.stderr}" if run.returncode else None


def main():
    root = tree.parse_root(__doc__)
    headers = [p for p in tree.files(root, ".h") if p.parts[0] in ("src", "include")]
    every = "WEFT_ALL_HEADERS" in os.environ
    alone = [h for h in headers if every or not shown_by_a_build(root, h)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = list(pool.map(lambda header: compile_alone(root, header), alone))
    tree.finish([c for c in complaints if c], len(headers))


main()
