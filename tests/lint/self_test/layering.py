from . import CheckTest

LAYERS = "set(WEFT_LAYERS base wire memory transport)\n"


class Layering(CheckTest):
    check = "layering"

    def tree(self, path, text):
        return {"CMakeLists.txt": LAYERS, path: text}

    def test_accepts_downward_public_and_system_includes(self):
        self.assert_passes(self.tree(
            "src/wire/bth.cc",
            '#include "wire/bth.h"\n#include "base/a.h"\n#include <weft/types.h>\n'
            '#include "weft/types.h"\n#include <memory>\n#include <sys/socket.h>\n'))

    def test_refuses_upward_include(self):
        self.assert_fails(self.tree("src/base/a.cc", '#include "wire/bth.h"\n'), "lies above it")

    def test_refuses_upward_include_in_angle_brackets(self):
        self.assert_fails(self.tree("src/base/a.h", "# include <transport/rc.h>\n"), "lies above it")

    def test_refuses_folder_that_is_not_listed(self):
        self.assert_fails(self.tree("src/extra/a.cc", "\n"), "not listed in WEFT_LAYERS")

    def test_refuses_include_of_folder_that_is_not_listed(self):
        self.assert_fails(self.tree("src/base/a.cc", '#include "extra/a.h"\n'), "not of the form")

    def test_refuses_include_without_folder(self):
        self.assert_fails(self.tree("src/base/a.cc", '#include "b.h"\n'), "not of the form")

    def test_refuses_public_header_that_includes_a_private_one(self):
        self.assert_fails(self.tree("include/weft/a.h", '#include "base/a.h"\n'), "public header")

    def test_fails_when_there_is_nothing_to_check(self):
        self.assert_fails({"CMakeLists.txt": LAYERS}, "nothing to check")
