from . import CheckTest


class Docs(CheckTest):
    check = "docs"

    def test_accepts_links_to_files_and_headings(self):
        self.assert_passes({"README.md": "[a](docs/a.md), [b](docs/a.md#who-is-it-ours)\n",
                            "docs/a.md": "# Who is it? `ours`\n[up](../README.md) [here](#who-is-it-ours)\n",
                            "src/a.cc": "// docs/a.md\n"})

    def test_accepts_links_to_other_sites_and_brackets_in_code(self):
        self.assert_passes({"a.md": "[a](https://example.org/b)\n```\n[](int x) {}\n```\n"})

    def test_accepts_a_test_that_exists(self):
        self.assert_passes({"a.md": "`Copy.moves_bytes`\n",
                            "tests/a_test.cc": "TEST(Copy, moves_bytes) {}\n"})

    def test_refuses_a_link_to_nowhere(self):
        self.assert_fails({"README.md": "[a](docs/a.md)\n"}, "does not exist")

    def test_refuses_a_link_to_a_heading_that_is_none(self):
        self.assert_fails({"README.md": "# A\n[a](#b)\n"}, "no such heading")

    def test_refuses_a_test_that_is_none(self):
        self.assert_fails({"a.md": "`Copy.moves_bytes`\n", "tests/a_test.cc": "TEST(Copy, moves) {}\n"},
                          "names the test Copy.moves_bytes")

    def test_refuses_a_page_that_only_a_source_names(self):
        self.assert_fails({"README.md": "# A\n", "src/a.cc": "// see docs/a.md\n"}, "names docs/a.md")

    def test_refuses_a_layer_that_the_table_leaves_out(self):
        layers = {"CMakeLists.txt": "set(WEFT_LAYERS base\n  path)\n"}
        self.assert_passes({**layers, "docs/architecture.md": "| `base` | a |\n| `path` | b |\n"})
        self.assert_fails({**layers, "docs/architecture.md": "| `base` | a |\n"}, "not base path")
