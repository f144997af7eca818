"""Every example in the README is a file of examples/, to the letter, examples/first_write.cc among
them: a program that a newcomer copies is one that the tests compiled and ran."""

import re

import tree

EXAMPLE = "examples/first_write.cc"


def problems_of(root, text):
    code = (root / EXAMPLE).read_text()
    if f"```cpp\n{code}```" not in text:
        yield f"README.md: its first example differs from {EXAMPLE}"
    known = {path.read_text() for path in (root / "examples").glob("*.cc")}
    for block in re.findall(r"```cpp\n(.*?)```", text, re.DOTALL):
        if block not in known:
            yield f"README.md: the example that begins '{block.splitlines()[0]}' differs from all files"


def main():
    root = tree.parse_root(__doc__)
    tree.finish(list(problems_of(root, (root / "README.md").read_text())), 1)


main()
