"""What an ELF file asks of others and offers to them, as readelf tells it."""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

DYNAMIC = re.compile(r"\((NEEDED|SONAME)\).*\[(.+)\]")


class Symbol(NamedTuple):
    """One line of the dynamic symbol table."""
    name: str
    version: str
    bind: str
    defined: bool


def readelf(*arguments: str | Path) -> str:
    return subprocess.run(["readelf", "--wide", *arguments], capture_output=True, text=True,
                          check=True).stdout


def dynamic_entries(text: str) -> dict[str, list[str]]:
    """The values of NEEDED and SONAME in what `readelf --dynamic` prints."""
    entries: dict[str, list[str]] = {"NEEDED": [], "SONAME": []}
    for kind, value in DYNAMIC.findall(text):
        entries[kind].append(value)
    return entries


def dynamic_symbols(text: str) -> list[Symbol]:
    """The symbols in what `readelf --dyn-syms` prints, without the first, which has no name."""
    symbols = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        name, _, version = fields[7].partition("@")
        symbols.append(Symbol(name, version.lstrip("@"), fields[4], fields[6] != "UND"))
    return symbols


def stripped_size(path: Path) -> int:
    """Bytes without what only a debugger needs."""
    with tempfile.NamedTemporaryFile() as copy:
        subprocess.run(["strip", "-o", copy.name, path], check=True)
        return Path(copy.name).stat().st_size


def demangled(names: list[str]) -> list[str]:
    output = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                            check=True).stdout
    return output.splitlines()
