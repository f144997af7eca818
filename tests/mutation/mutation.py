"""Reads what is recorded in *.mutation: one mistake each, made in a copy of the tree, that a test has
to notice. The format is in README.md."""

import dataclasses
import pathlib
import re

HEAD = re.compile(r"^(?P<name>\w+): (?P<value>.*\S)\s*$")
TEST = re.compile(r"^(?P<path>\S+): (?P<suite>\w+)\.(?P<name>\w+)$")
NAMES = ("id", "mistake", "file", "program", "test")
PARTS = ("=== old", "=== new")
# What a name of a file begins with is its id; behind a hyphen stands what tells several apart.
STEM = re.compile(r"^[A-Z]\d+(\.\d+)?(-[a-z0-9_]+)?$")


class Malformed(Exception):
    """The file is not of the format."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    stem: str
    id: str
    mistake: str
    file: str
    program: str
    test: str
    changes: tuple  # of pairs: the old text, the new one

    def gtest_filter(self):
        """All instances of the test, if it has parameters."""
        match = TEST.match(self.test)
        suite, name = match["suite"], match["name"]
        return ":".join([f"{suite}.{name}", f"{suite}.{name}/*", f"*/{suite}.{name}",
                         f"*/{suite}.{name}/*", f"{suite}/*.{name}"])

    def apply(self, text):
        """The text with the mistake in it."""
        for old, new in self.changes:
            count = text.count(old)
            if count != 1:
                raise Malformed(f"{self.stem}: the old text occurs {count} times in {self.file}")
            text = text.replace(old, new)
        return text


def parse(stem, text):
    """One recorded mistake."""
    if not STEM.match(stem):
        raise Malformed(f"{stem}: a name is an id, or an id, a hyphen and a word")
    values, parts = {}, []
    for line in text.splitlines(keepends=True):
        if line.rstrip("\n") in PARTS:
            if line.rstrip("\n") != PARTS[len(parts) % 2]:
                raise Malformed(f"{stem}: '{PARTS[len(parts) % 2]}' does not stand in its place")
            parts.append("")
        elif parts:
            parts[-1] += line
        elif line.strip():
            match = HEAD.match(line)
            if not match or match["name"] not in NAMES or match["name"] in values:
                raise Malformed(f"{stem}: '{line.rstrip()}' is not understood")
            values[match["name"]] = match["value"]
    missing = [n for n in NAMES if n not in values]
    if missing or not parts or len(parts) % 2:
        raise Malformed(f"{stem}: lacks {', '.join(missing) or PARTS[len(parts) % 2]}")
    if not TEST.match(values["test"]):
        raise Malformed(f"{stem}: '{values['test']}' is not of the form path/to/file: Suite.name")
    if values["id"] != stem.split("-")[0]:
        raise Malformed(f"{stem}: is for {values['id']}, and its name says otherwise")
    changes = tuple(zip(parts[::2], parts[1::2]))
    if any(not old.strip() or old == new for old, new in changes):
        raise Malformed(f"{stem}: changes nothing")
    return Mutation(stem=stem, changes=changes, **values)


def order(stem):
    """A2 before A10, B4.2 before B4.10."""
    return [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", stem)]


def read_all(folder):
    """All of a folder, by id."""
    paths = sorted(pathlib.Path(folder).glob("*.mutation"), key=lambda p: order(p.stem))
    return [parse(path.stem, path.read_text()) for path in paths]
