"""What weft ships asks nothing of the machine but the C library (and rdma-core, where channels need
it), offers nothing but its own interface, and is small. A program may have another fmt, spdlog or
C++ library: nothing of theirs may meet weft's by name.

    binaries.py --root . --weft build/release/bin/weft --rdma build/release/lib/libweft-rdma.so ..."""

import argparse
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import elf

C_LIBRARY = frozenset(["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"])
CXX_LIBRARY = C_LIBRARY | {"libstdc++.so.6", "libgcc_s.so.1"}
RDMA_CORE = frozenset(["libibverbs.so.1", "librdmacm.so.1"])
LARGEST = 3_000_000
GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")
STATED = re.compile(r"glibc (\d+)\.(\d+) or newer")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def newest_glibc(symbols: list[elf.Symbol]) -> tuple[int, int]:
    """The newest version of the C library that any symbol asks for."""
    versions = [(0, 0)]
    for symbol in symbols:
        if not symbol.defined and (match := GLIBC.match(symbol.version)):
            versions.append((int(match[1]), int(match[2])))
    return max(versions)


def of_libraries(name: str, needed: list[str], allowed: frozenset[str]) -> list[str]:
    return [f"{name}: needs {library}" for library in needed if library not in allowed]


def of_imports(name: str, symbols: list[elf.Symbol]) -> list[str]:
    """Only for what has to do with the C library alone. Weak ones may be missing."""
    return [f"{name}: takes {s.name} from whoever has it" for s in symbols
            if not s.defined and s.bind != "WEAK" and not s.version.startswith("GLIBC_")]


def patterns_of(export_map: str) -> list[str]:
    """What a version script lists under `global:`."""
    listed = export_map.split("global:")[1].split("local:")[0]
    listed = re.sub(r'/\*.*?\*/|extern "C\+\+"|[{};]', " ", listed, flags=re.DOTALL)
    return listed.split()


def of_exports(name: str, exported: list[str], patterns: list[str]) -> list[str]:
    return [f"{name}: offers {symbol}" for symbol in exported
            if not any(fnmatchcase(symbol, pattern) for pattern in patterns)]


def of_interface(name: str, exported: list[str], headers: str) -> list[str]:
    """Each name of an exported function stands in the public headers."""
    words = set(IDENTIFIER.findall(headers))
    problems = []
    for function in exported:
        qualified = re.sub(r"\[abi:\w+\]", "", function.split("(")[0])
        qualified = re.sub(r"::operator\W+$", "::operator", qualified)
        unknown = [part for part in qualified.split("::") if part.lstrip("~") not in words]
        if unknown and not qualified.startswith(("typeinfo", "vtable")):
            problems.append(f"{name}: offers {function}, which no public header declares")
    return problems


def listed_in(symbols_file: str, soname: str) -> set[str]:
    """The symbols that the Debian package promises for one library, with their versions."""
    listed: set[str] = set()
    of_this = False
    for line in symbols_file.splitlines():
        if not line.startswith(" "):
            of_this = line.split()[0] == soname
        elif of_this:
            listed.add(line.split()[0])
    return listed


def of_symbols_file(name: str, symbols: list[elf.Symbol], listed: set[str]) -> list[str]:
    def versioned(symbol: elf.Symbol) -> str:
        # The name of a version is a symbol, too, of that version.
        own = symbol.name if symbol.name.startswith("WEFT_") else "Base"
        return f"{symbol.name}@{symbol.version or own}"
    offered = {versioned(s) for s in symbols if s.defined}
    return ([f"{name}: offers {symbol}, which packaging/debian/libweft0.symbols lacks"
             for symbol in sorted(offered - listed)] +
            [f"{name}: packaging/debian/libweft0.symbols promises {symbol}, which is gone"
             for symbol in sorted(listed - offered)])


def of_soname(name: str, entries: dict[str, list[str]], expected: str) -> list[str]:
    return [] if entries["SONAME"] == [expected] else [f"{name}: SONAME is {entries['SONAME']}"]


class Check:
    """Reads the files and gathers what is wrong with them."""

    def __init__(self, root: Path, major: str) -> None:
        self.root = root
        self.major = major
        self.problems: list[str] = []
        match = STATED.search((root / "docs/install.md").read_text())
        if match is None:
            sys.exit("docs/install.md does not state the oldest C library")
        self.stated = (int(match[1]), int(match[2]))
        self.newest = (0, 0)
        headers = (root / "include/weft").glob("*.h")
        self.headers = "\n".join(path.read_text() for path in headers)

    def file(self, path: Path, allowed: frozenset[str],
             alone: bool) -> tuple[list[elf.Symbol], dict[str, list[str]]]:
        """What holds for each file; gives its symbols and entries."""
        symbols = elf.dynamic_symbols(elf.readelf("--dyn-syms", path))
        entries = elf.dynamic_entries(elf.readelf("--dynamic", path))
        if not symbols:
            self.problems.append(f"{path.name}: no symbols were read")
        self.problems += of_libraries(path.name, entries["NEEDED"], allowed)
        if alone:
            self.problems += of_imports(path.name, symbols)
        self.problems += [f"{path.name}: {s.name} is unique in the process" for s in symbols
                          if s.bind == "UNIQUE"]
        newest = newest_glibc(symbols)
        self.newest = max(self.newest, newest)
        if newest > self.stated:
            self.problems.append(f"{path.name}: needs glibc {newest[0]}.{newest[1]}, "
                                 f"docs/install.md states {self.stated[0]}.{self.stated[1]}")
        if (size := elf.stripped_size(path)) >= LARGEST:
            self.problems.append(f"{path.name}: {size} bytes when stripped")
        print(f"{path.name}: {size} bytes when stripped, glibc {newest[0]}.{newest[1]}, "
              f"{sum(s.defined for s in symbols)} symbols offered")
        return symbols, entries

    def library(self, path: Path, allowed: frozenset[str], alone: bool, export_map: str) -> None:
        symbols, entries = self.file(path, allowed, alone)
        exported = sorted({s.name for s in symbols if s.defined and not s.name.startswith("WEFT_")})
        if any(name.startswith("_Z") for name in exported):
            exported = elf.demangled(exported)
            self.problems += of_interface(path.name, exported, self.headers)
        patterns = patterns_of((self.root / export_map).read_text())
        self.problems += of_exports(path.name, exported, patterns)
        stem = path.name.split(".so")[0]
        soname = f"{stem}.so.{self.major}"
        self.problems += of_soname(path.name, entries, soname)
        promised = (self.root / "packaging/debian/libweft0.symbols").read_text()
        self.problems += of_symbols_file(path.name, symbols, listed_in(promised, soname))

    def program(self, path: Path, allowed: frozenset[str], alone: bool) -> None:
        symbols, _ = self.file(path, allowed, alone)
        # Variables of the C library that a program has a copy of keep their version.
        self.problems += [f"{path.name}: offers {s.name}" for s in symbols
                          if s.defined and not s.version.startswith("GLIBC_")
                          and s.name != "_IO_stdin_used"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--major", required=True, help="the first number of the version")
    for name in ("weft", "weft-channel", "rdma", "verbs", "channel"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    check = Check(given.root, given.major)
    check.program(given.weft, C_LIBRARY, alone=True)
    check.library(given.rdma, C_LIBRARY, True, "src/shim/exports.map")
    check.program(given.weft_channel, C_LIBRARY | RDMA_CORE, alone=False)
    check.library(given.verbs, CXX_LIBRARY, False, "src/verbs/exports.map")
    check.library(given.channel, CXX_LIBRARY | RDMA_CORE, False, "src/channel/exports.map")
    if check.newest != check.stated:
        check.problems.append(f"docs/install.md states another oldest C library than "
                              f"{check.newest[0]}.{check.newest[1]}, which is the one")
    for problem in check.problems:
        print(problem)
    sys.exit(bool(check.problems))


if __name__ == "__main__":
    main()
