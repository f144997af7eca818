import os
import unittest.mock

from . import CheckTest

USES_STRING = "#pragma once\ninline std::string f() { return {}; }\n"


class SelfContained(CheckTest):
    check = "self_contained"

    def test_accepts_header_that_includes_what_it_needs(self):
        self.assert_passes({"include/weft/a.h": "#include <string>\n" + USES_STRING})

    def test_refuses_header_that_relies_on_its_includer(self):
        self.assert_fails({"include/weft/a.h": USES_STRING}, "does not compile alone")

    def test_looks_at_those_of_src_when_asked_for_all(self):
        public = {"include/weft/b.h": "#pragma once\n", "src/base/a.h": USES_STRING}
        self.assert_passes(public)
        with unittest.mock.patch.dict(os.environ, {"WEFT_ALL_HEADERS": "1"}):
            self.assert_fails(public, "does not compile alone")
