"""The first example in the README is examples/first_write.cc, to the letter: a program that a
newcomer copies is one that the tests compiled and ran. Every file that the README links exists."""

import re

import tree

EXAMPLE = "examples/first_write.cc"


def problems_of(root, text):
    code = (root / EXAMPLE).read_text()
    if f"```cpp\n{code}```" not in text:
        yield f"README.md: its first example differs from {EXAMPLE}"
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        if not (root / target).exists():
            yield f"README.md: links {target}, which does not exist"


def main():
    root = tree.parse_root(__doc__)
    tree.finish(list(problems_of(root, (root / "README.md").read_text())), 1)


main()
