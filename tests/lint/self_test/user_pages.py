from . import CheckTest


class UserPages(CheckTest):
    check = "user_pages"

    def test_accepts_pages_that_speak_of_what_users_do(self):
        self.assert_passes({"docs/how-to/a.md": "# A\n```console\n$ weft sim --seed 7\n```\n",
                            "docs/seed.md": "Figure 3 of seed A, B1.6\n```\na\n```\n"})

    def test_refuses_the_number_of_a_requirement(self):
        self.assert_fails({"README.md": "It does B1.6.\n"}, "'B1.6' names a requirement")
        self.assert_fails({"include/weft/a.h": "/// A key (A18).\n"}, "'A18' names a requirement")

    def test_refuses_a_figure_and_its_blocks(self):
        self.assert_fails({"docs/reference/a.md": "As in figure 4.\n"}, "names a figure")
        self.assert_fails({"docs/reference/a.md": "As in block 344.\n"}, "names a block")

    def test_refuses_the_documents_behind_weft(self):
        self.assert_fails({"docs/explanation/a.md": "The seed's words.\n"}, "names the seed")

    def test_refuses_a_block_that_says_not_what_it_is(self):
        self.assert_fails({"docs/tutorial/a.md": "# A\n```\nweft run\n```\n"}, "the block is ''")
        self.assert_fails({"docs/tutorial/a.md": "# A\n\n    weft run\n"}, "code by indentation")
