import os
import unittest.mock

from . import CheckTest

USES_STRING = "#pragma once\ninline std::string f() { return {}; }\n"


class SelfContained(CheckTest):
    check = "self_contained"

    def test_accepts_header_that_includes_what_it_needs(self):
        self.assert_passes({"src/base/a.h": "#include <string>\n" + USES_STRING})

    def test_refuses_header_that_relies_on_its_includer(self):
        self.assert_fails({"src/base/a.h": USES_STRING}, "does not compile alone")

    def test_refuses_it_when_its_source_includes_another_first(self):
        self.assert_fails({"src/base/a.h": USES_STRING,
                           "src/base/a.cc": '#include <string>\n#include "base/a.h"\n'},
                          "does not compile alone")

    def test_leaves_to_the_build_what_a_source_includes_first(self):
        self.assert_passes({"src/base/a.h": USES_STRING, "src/base/a.cc": '#include "base/a.h"\n'})

    def test_leaves_nothing_to_the_build_when_asked_for_all(self):
        with unittest.mock.patch.dict(os.environ, {"WEFT_ALL_HEADERS": "1"}):
            self.assert_fails({"src/base/a.h": USES_STRING,
                               "src/base/a.cc": '#include "base/a.h"\n'},
                              "does not compile alone")
