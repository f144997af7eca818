"""binaries.py on made-up symbol tables."""

import unittest

import binaries
import elf

TABLE = """
Symbol table '.dynsym' contains 4 entries:
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT  UND
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND read@GLIBC_2.2.5 (2)
     2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND _ZSt9terminatev
     3: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND __gmon_start__
     4: 0000000000001234    10 FUNC    GLOBAL DEFAULT   12 ibv_open_device
     5: 0000000000001234    10 FUNC    UNIQUE DEFAULT   12 _ZGVx@@WEFT_0
"""


class Binaries(unittest.TestCase):
    """What each rule lets pass, and what not."""

    def setUp(self) -> None:
        self.symbols = elf.dynamic_symbols(TABLE)

    def test_symbols_are_read_with_their_versions(self) -> None:
        self.assertEqual([s.name for s in self.symbols], [
            "read", "_ZSt9terminatev", "__gmon_start__", "ibv_open_device", "_ZGVx"])
        self.assertEqual([s.version for s in self.symbols], ["GLIBC_2.2.5", "", "", "", "WEFT_0"])
        self.assertEqual([s.defined for s in self.symbols], [False, False, False, True, True])

    def test_needed_and_soname_are_read(self) -> None:
        text = (" 0x1 (NEEDED)  Shared library: [libc.so.6]\n"
                " 0xe (SONAME)  Library soname: [libweft.so.0]\n")
        self.assertEqual(elf.dynamic_entries(text),
                         {"NEEDED": ["libc.so.6"], "SONAME": ["libweft.so.0"]})

    def test_a_symbol_of_the_cxx_library_is_noticed(self) -> None:
        problems = binaries.of_imports("x", self.symbols)
        self.assertEqual(len(problems), 1)
        self.assertIn("_ZSt9terminatev", problems[0])

    def test_another_library_is_noticed(self) -> None:
        self.assertEqual(binaries.of_libraries("x", ["libc.so.6"], binaries.C_LIBRARY), [])
        self.assertEqual(len(binaries.of_libraries("x", ["libfmt.so.9"], binaries.C_LIBRARY)), 1)

    def test_the_newest_version_counts(self) -> None:
        def asks(version: str) -> elf.Symbol:
            return elf.Symbol("f", version, "GLOBAL", False)
        self.assertEqual(binaries.newest_glibc([asks("GLIBC_2.9"), asks("GLIBC_2.34"), asks("")]),
                         (2, 34))

    def test_what_the_map_does_not_name_is_noticed(self) -> None:
        patterns = binaries.patterns_of('V { global: /* a; */ extern "C++" { weft::A::*; }; '
                                        'ibv_*; local: *; };')
        self.assertEqual(patterns, ["weft::A::*", "ibv_*"])
        self.assertEqual(binaries.of_exports("x", ["weft::A::f()", "ibv_q"], patterns), [])
        self.assertEqual(len(binaries.of_exports("x", ["fmt::v9::vformat"], patterns)), 1)

    def test_a_function_that_no_header_declares_is_noticed(self) -> None:
        headers = "namespace weft { class A { void f(); ~A(); A& operator=(A&&); }; }"
        names = ["weft::A::f[abi:cxx11](int)", "weft::A::~A()", "weft::A::operator=(weft::A&&)"]
        self.assertEqual(binaries.of_interface("x", names, headers), [])
        self.assertEqual(len(binaries.of_interface("x", ["weft::A::hidden()"], headers)), 1)

    def test_the_symbols_file_has_to_be_as_the_library(self) -> None:
        text = "liba.so.0 p\n other@V 1\nlibx.so.0 p #MINVER#\n ibv_open_device@Base 1\n _ZGVx@WEFT_0 1\n"
        listed = binaries.listed_in(text, "libx.so.0")
        self.assertEqual(binaries.of_symbols_file("x", self.symbols, listed), [])
        self.assertEqual(len(binaries.of_symbols_file("x", self.symbols, listed | {"gone@V"})), 1)
        self.assertEqual(len(binaries.of_symbols_file("x", self.symbols, set())), 2)

    def test_another_soname_is_noticed(self) -> None:
        self.assertEqual(binaries.of_soname("x", {"SONAME": ["a.so.0"]}, "a.so.0"), [])
        self.assertEqual(len(binaries.of_soname("x", {"SONAME": []}, "a.so.0")), 1)


if __name__ == "__main__":
    unittest.main()
