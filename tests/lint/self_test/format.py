from . import CheckTest

STYLE = {".clang-format": "BasedOnStyle: Google\n"}


class Format(CheckTest):
    check = "format"

    def test_accepts_formatted_file(self):
        self.assert_passes({**STYLE, "src/a.cc": "int f() { return 1; }\n"})

    def test_refuses_unformatted_source(self):
        self.assert_fails({**STYLE, "src/a.cc": "int  f(){return 1;}\n"}, "src/a.cc:1")

    def test_refuses_unformatted_header(self):
        self.assert_fails({**STYLE, "include/weft/a.h": "int  f( );\n"}, "include/weft/a.h:1")

    def test_fails_without_clang_format(self):
        self.assert_fails({**STYLE, "src/a.cc": "\n"}, "not installed", PATH="/nowhere")
