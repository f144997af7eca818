from . import CheckTest

HEAD = "| down | where | what happens |\n|---|---|---|\n"
TREE = {"CMakeLists.txt": "set(WEFT_LAYERS base port\n  path)\n",
        "src/path/a.cc": "void Way::go() {\n}\n", "src/path/a.h": "class Way;\n",
        "src/port/b.cc": "int send(int n) { return n; }\n"}
ABOVE, BELOW = "| path | `src/path/a.cc`: `Way::go` | It goes. |\n", "| port | `src/port/b.cc`: `send` | |\n"


class Tour(CheckTest):
    check = "tour"

    def test_accepts_a_leg_that_goes_down(self):
        self.assert_passes({**TREE, "docs/tour.md": HEAD + ABOVE + BELOW})

    def test_accepts_a_leg_that_goes_up(self):
        self.assert_passes({**TREE, "docs/tour.md": HEAD.replace("down", "up") + BELOW + ABOVE})

    def test_refuses_a_leg_that_goes_back(self):
        self.assert_fails({**TREE, "docs/tour.md": HEAD + ABOVE + BELOW + ABOVE},
                          "path is not down from the hop before")

    def test_refuses_a_file_that_is_not_there(self):
        self.assert_fails({**TREE, "docs/tour.md": HEAD + ABOVE.replace("a.cc", "c.cc")},
                          "src/path/c.cc does not exist")

    def test_refuses_a_function_that_is_not_there(self):
        self.assert_fails({**TREE, "docs/tour.md": HEAD + ABOVE.replace("go", "stop")},
                          "src/path/a.cc has no Way::stop")

    def test_refuses_a_class_that_is_not_there(self):
        self.assert_fails({**TREE, "docs/tour.md": HEAD + ABOVE.replace("Way", "Road")},
                          "src/path/a.cc has no Road::go")

    def test_refuses_a_hop_of_another_layer(self):
        self.assert_fails({**TREE, "docs/tour.md": HEAD + BELOW.replace("| port", "| base")},
                          "is not in the layer base")

    def test_refuses_a_file_that_only_the_text_names(self):
        self.assert_fails({**TREE, "docs/tour.md": HEAD + ABOVE + "\nSee `src/path/d.cc`.\n"},
                          "src/path/d.cc does not exist")

    def test_refuses_a_row_that_names_no_function(self):
        self.assert_fails({**TREE, "docs/tour.md": HEAD + "| path | `src/path/a.cc` | |\n"},
                          "not of the form")
