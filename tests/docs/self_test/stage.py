"""docs/site/stage.py on made-up pages."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "docs/site"))
import stage  # pylint: disable=wrong-import-position


class Stage(unittest.TestCase):
    def pages(self, **changes):
        pages = {"index.md": "# Home\n", "install.md": "# Install\n"}
        for folder in stage.SECTIONS:
            pages[f"{folder}/index.md"] = f"# {folder}\n[a](a.md) [up](../index.md)\n"
            pages[f"{folder}/a.md"] = "# The `a`\n"
        return pages | changes

    def test_links_lead_to_the_same_things_in_the_site(self):
        text = ("[a](../../CONTRIBUTING.md) [b](../../include/weft/work.h) [c](#d) "
                "[e](../../examples/disk.cc) [f](../how-to/a.md#g) [h](https://example.org)")
        self.assertEqual(
            stage.staged(text, "docs/reference/index.md", "reference/index.md"),
            "[a](../engineering/contributing.md) [b](api/work_8h.html) [c](#d) "
            "[e](examples/disk.md) [f](../how-to/a.md#g) [h](https://example.org)")

    def test_pages_for_engineers_have_a_folder_on_the_site_alone(self):
        for page, place in {"docs/wire.md": "engineering/wire.md", "docs/a.svg": "engineering/a.svg", "docs/engineering.md": "engineering/index.md",
                            "docs/decisions/README.md": "engineering/decisions/README.md", "docs/ci.md": "ci.md",
                            "docs/how-to/index.md": "how-to/index.md", "src/cli/main.cc": None}.items():
            self.assertEqual(stage.place_of(page), place)

    def test_notes_for_tests_are_left_out(self):
        text = "A.\n\n<!-- not run: needs a moon -->\n```sh\n"
        self.assertEqual(stage.staged(text, "docs/index.md", "index.md"), "A.\n\n```sh\n")

    def test_of_a_link_to_what_is_not_on_the_site_the_text_is_left(self):
        self.assertEqual(stage.staged("See [`a.cc`](../src/a.cc).", "docs/index.md", "index.md"),
                         "See `a.cc`.")

    def test_the_navigation_has_the_pages_in_the_order_of_the_index(self):
        lines = stage.navigation(self.pages())
        self.assertEqual(lines[:4], ["nav:", '  - "Home": index.md', '  - "Install": install.md',
                                     '  - "Tutorial":'])
        self.assertIn('      - "The a": reference/a.md', lines)

    def test_refuses_a_page_that_no_index_links(self):
        with self.assertRaisesRegex(stage.StageError, "no index.md links it"):
            stage.navigation(self.pages(**{"how-to/b.md": "# B\n"}))
