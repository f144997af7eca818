"""page_blocks.py on made-up pages."""

import unittest

from page_blocks import PageError, missing_line, steps_of

PAGE = """# A page
Text.

```console
$ one \\
  two
shown ...
other$ three
```

<!-- not run: needs two machines -->
```console
$ four
```

```text
$ not a command
```

<!-- file: a.c -->
```c
int a;
```

<!-- status: 2 -->
<!-- listens: 99 -->
```sh
five
six
```
"""


class Steps(unittest.TestCase):
    def setUp(self):
        self.steps, self.not_run = steps_of(PAGE)

    def test_commands_with_their_output_and_terminal(self):
        first, second = self.steps[:2]
        self.assertEqual((first.command, first.shown, first.terminal),
                         ("one \\\n  two", ["shown ..."], ""))
        self.assertEqual((second.command, second.terminal), ("three", "other"))

    def test_files_and_scripts(self):
        file, script = self.steps[2:]
        self.assertEqual((file.file, file.command), ("a.c", "int a;\n"))
        self.assertEqual((script.command, script.status, script.listens),
                         ("set -e\nfive\nsix\nset +e", 2, 99))

    def test_says_what_is_not_run_and_why(self):
        self.assertEqual(self.not_run, ["line 12: needs two machines"])

    def test_nobody_is_spared_without_a_reason(self):
        with self.assertRaisesRegex(PageError, "does not say why"):
            steps_of("<!-- not run -->\n```console\n$ a\n```\n")

    def test_a_note_stands_above_its_block(self):
        with self.assertRaisesRegex(PageError, "right above"):
            steps_of("<!-- status: 1 -->\nText.\n```console\n$ a\n```\n")

    def test_a_block_ends_and_has_a_command(self):
        with self.assertRaisesRegex(PageError, "does not end"):
            steps_of("```sh\na\n")
        with self.assertRaisesRegex(PageError, "output without a command"):
            steps_of("```console\na\n```\n")


class Shown(unittest.TestCase):
    def test_lines_come_in_order_with_others_between(self):
        self.assertIsNone(missing_line(["a", "...", "c"], "a\nb\nc\n"))
        self.assertEqual(missing_line(["c", "a"], "a\nb\nc\n"), "a")

    def test_dots_stand_for_anything_and_spaces_for_spaces(self):
        self.assertIsNone(missing_line(["x ... z"], "x  1\t2 z"))
        self.assertEqual(missing_line(["x ... z"], "x 1 zy"), "x ... z")
        self.assertEqual(missing_line(["x"], "xx"), "x")
