from . import CheckTest

PARAGRAPH = "// A counter that one thread owns and that lives as long as its queue pair.\n"


class Headers(CheckTest):
    check = "headers"

    def test_accepts_paragraph_and_pragma(self):
        self.assert_passes({"src/base/a.h": PARAGRAPH + "#pragma once\n"})

    def test_refuses_header_without_pragma(self):
        self.assert_fails({"src/base/a.h": PARAGRAPH + "int f();\n"}, "no #pragma once")

    def test_refuses_header_without_paragraph(self):
        self.assert_fails({"include/weft/a.h": "\n#pragma once\n"}, "does not open with")

    def test_refuses_paragraph_that_says_nothing(self):
        self.assert_fails({"src/base/a.h": "// Stuff.\n#pragma once\n"}, "does not open with")
