"""Every listing in the README is a part of a file of examples/, whole lines to the letter, and every
file of examples/ is linked there or listed as a whole: a program that a newcomer copies is one that
the tests compiled and ran, and none is hidden."""

import re

import tree


def problems_of(examples, text):
    listings = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    if not listings:
        yield "README.md: shows no example"
    for listing in listings:
        if not any("\n" + listing in "\n" + code for code in examples.values()):
            yield f"README.md: the listing that begins '{listing.splitlines()[0]}' is in no example"
    for name, code in examples.items():
        if f"]({name})" not in text and code not in listings:
            yield f"README.md: neither lists nor links {name}"


def main():
    root = tree.parse_root(__doc__)
    examples = {str(path.relative_to(root)): path.read_text()
                for path in sorted((root / "examples").glob("*.cc"))}
    tree.finish(list(problems_of(examples, (root / "README.md").read_text())), len(examples))


main()
