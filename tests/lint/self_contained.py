"""Every header compiles alone, syntax only: those that programs include. With WEFT_ALL_HEADERS set,
as `make soak` does, those of src/ too, which takes minutes."""

import concurrent.futures
import os
import subprocess

import tree


def compile_alone(root, header):
    """Gives the compiler's complaint, or None."""
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-I", root / "include",
               "-I", root / "src", "-include", root / header, "-x", "c++", "/dev/null"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{header}: does not compile alone\n{run.stderr}" if run.returncode else None


def main():
    root = tree.parse_root(__doc__)
    folders = ("include", "src") if "WEFT_ALL_HEADERS" in os.environ else ("include",)
    headers = [p for p in tree.files(root, ".h") if p.parts[0] in folders]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = list(pool.map(lambda header: compile_alone(root, header), headers))
    tree.finish([c for c in complaints if c], len(headers))


main()
