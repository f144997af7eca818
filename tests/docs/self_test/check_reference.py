"""check_reference.py on made-up help and pages."""

import unittest

from check_reference import (OPTION, options_of_page, problems_of_options, problems_of_variables)

HELP = """Options:
  -h,--help                   Print this help message and exit
  --device NAME[=ADDRESS] ... a device, see --log
  --first-seed UINT
"""
PAGE = "# A\n## weft run\n| `--device NAME` |\n`--old`\n## weft sim\n| `--seed` |\n"


class CheckReference(unittest.TestCase):
    def test_reads_the_options_of_a_help(self):
        self.assertEqual(OPTION.findall(HELP), ["--help", "--device", "--first-seed"])

    def test_reads_the_options_of_a_command_on_the_page(self):
        self.assertEqual(options_of_page(PAGE, "run"), {"--device", "--old"})
        self.assertEqual(options_of_page(PAGE, "none"), set())

    def test_tells_what_is_missing_and_what_is_too_much(self):
        self.assertEqual(problems_of_options("run", {"--device", "--new"}, {"--device", "--old"}),
                         ["weft run: --new is not in the reference", "weft run: has no --old"])
        self.assertEqual(problems_of_variables({"WEFT_A"}, "`WEFT_B=off`"),
                         ["WEFT_A is not in the reference", "no source reads WEFT_B"])
