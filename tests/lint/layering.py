"""Includes go downward only: a file in src/X may include "Y/..." when Y stands at or before X in
WEFT_LAYERS of the root CMakeLists.txt, and the public headers. Public headers include only each
other."""

import re
import sys

import tree

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def read_layers(root):
    text = (root / "CMakeLists.txt").read_text()
    match = re.search(r"set\(\s*WEFT_LAYERS\s+([^)]*)\)", text)
    if not match:
        sys.exit("CMakeLists.txt does not set WEFT_LAYERS")
    return match.group(1).split()


def problem_of(path, folder, bracket, target, layers):
    """Says what is wrong with one include, or None. `folder` is None for a public header."""
    layer = target.split("/")[0]
    if layer == "weft":
        return None
    if folder is None:
        return f"{path}: a public header includes \"{target}\"" if bracket == '"' else None
    if bracket == "<" and ("/" not in target or layer not in layers):
        return None  # the system's: <memory> is not our memory/
    if "/" not in target or layer not in layers:
        return f"{path}: \"{target}\" is not of the form \"folder/file.h\" with a folder of WEFT_LAYERS"
    if layers.index(layer) > layers.index(folder):
        return f"{path}: {folder} includes \"{target}\", which lies above it"
    return None


def main():
    root = tree.parse_root(__doc__)
    layers = read_layers(root)
    problems, checked = [], 0
    for path in tree.files(root, ".h", ".cc"):
        if path.parts[0] not in ("src", "include"):
            continue
        folder = path.parts[1] if path.parts[0] == "src" else None
        checked += 1
        if folder is not None and folder not in layers:
            problems.append(f"{path}: src/{folder} is not listed in WEFT_LAYERS")
            continue
        for bracket, target in INCLUDE.findall((root / path).read_text()):
            problem = problem_of(path, folder, bracket, target, layers)
            if problem:
                problems.append(problem)
    tree.finish(problems, checked)


main()
