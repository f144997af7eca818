"""run_pages.py on made-up pages, with no weft in them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).parents[1] / "run_pages.py"
SKIPPED = 77


class RunPages(unittest.TestCase):
    def run_page(self, text):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text(text)
            run = subprocess.run([sys.executable, PROGRAM, "--build", folder, page],
                                 capture_output=True, text=True, check=False)
        if run.returncode == SKIPPED:
            self.skipTest(run.stdout)
        return run.returncode, run.stdout + run.stderr

    def assert_passes(self, text):
        code, output = self.run_page(text)
        self.assertEqual(code, 0, output)
        return output

    def assert_fails(self, text, reason):
        code, output = self.run_page(text)
        self.assertEqual(code, 1, output)
        self.assertIn(reason, output)

    def test_a_terminal_keeps_its_folder_and_its_variables(self):
        self.assert_passes("```console\n$ mkdir a; cd a; export B=c\n```\n"
                           "```console\n$ echo $B in $(basename $PWD)\nc in a\n```\n")

    def test_files_are_saved_before_what_follows(self):
        self.assert_passes("<!-- file: a.txt -->\n```text\nsaved\n```\n```console\n$ cat a.txt\nsaved\n```\n")

    def test_another_terminal_runs_beside_the_first(self):
        self.assert_passes("<!-- listens: 18000 -->\n```console\n"
                           "other$ python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 18000)); "
                           "s.accept()[0].sendall(b\"x\")'\n```\n"
                           "```console\n$ python3 -c 'import socket; "
                           "print(socket.create_connection((\"127.0.0.1\", 18000)).recv(1))'\nb'x'\n```\n")

    def test_counts_what_is_not_run(self):
        output = self.assert_passes("<!-- not run: needs a moon -->\n```sh\nfalse\n```\n")
        self.assertIn("needs a moon", output)
        self.assertIn("1 blocks not run", output)

    def test_refuses_another_status(self):
        self.assert_fails("```console\n$ false\n```\n", "ended with status 1")
        self.assert_fails("<!-- status: 1 -->\n```console\n$ true\n```\n", "ended with status 0")
        self.assert_fails("```sh\nfalse\ntrue\n```\n", "ended with status 1")

    def test_refuses_other_output(self):
        self.assert_fails("```console\n$ echo a\nb\n```\n", "did not print: b")

    def test_refuses_another_terminal_that_fails(self):
        self.assert_fails("```console\nother$ echo a; exit 3\na\n```\n```console\n$ true\n```\n",
                          "ended with status 3")
