"""tests/mutation/run.py on a made-up project: it tells noticed mistakes from missed ones, and leaves
the tree as it was."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from . import LINT

RUN = LINT.parent / "mutation/run.py"
# A program that is not gtest's, but speaks like it: it tests two() and not three().
FILES = {
    "CMakePresets.json": json.dumps({"version": 3, "configurePresets": [{
        "name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}]}),
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.22)\nproject(made_up LANGUAGES CXX)\n"
                      "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n"
                      "add_executable(unit_a a.cc)\n",
    "a.cc": """#include <cstdio>
#include <cstring>
int two() {
  return 2;
}
int three() {
  return 3;
}
int main(int, char** argv) {
  if (std::strstr(argv[1], "nothing")) return std::puts("[  PASSED  ] 0 tests."), 0;
  if (std::strstr(argv[1], "sound")) return three() == 3 ? 1 : 0;
  if (std::strstr(argv[1], "skips")) return std::puts("[  SKIPPED ] A.skips"), 0;
  std::puts("[  PASSED  ] 1 test.");
  return two() == 2 ? 0 : 1;
}
""",
}


def recorded(stem, test, old, new):
    return {f"tests/mutation/{stem}.mutation":
            f"id: {stem.split('-')[0]}\nmistake: of {stem}\nfile: a.cc\nprogram: unit_a\n"
            f"test: a_test.cc: A.{test}\n=== old\n{old}\n=== new\n{new}\n"}


class MutationRun(unittest.TestCase):
    def run_on(self, files, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**FILES, **files}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            run = subprocess.run([sys.executable, RUN, "--root", root, *arguments],
                                 capture_output=True, text=True, check=False)
            self.assertEqual((root / "a.cc").read_text(), FILES["a.cc"])
            copy = root / "build/mutation/tree/a.cc"
            if copy.exists():
                self.assertEqual(copy.read_text(), FILES["a.cc"])
            return run.returncode, run.stdout + run.stderr

    noticed = recorded("A1", "counts", "  return 2;", "  return 3;")
    missed = recorded("A2", "counts", "  return 3;", "  return 4;")

    def test_tells_noticed_from_missed(self):
        code, output = self.run_on(self.noticed)
        self.assertEqual(code, 0, output)
        self.assertIn("1 of 1 mistakes noticed", output)
        code, output = self.run_on({**self.noticed, **self.missed})
        self.assertEqual(code, 1, output)
        self.assertRegex(output, r"noticed +A1")
        self.assertRegex(output, r"MISSED +A2")

    def test_takes_only_what_was_asked_for(self):
        code, output = self.run_on({**self.noticed, **self.missed}, "--only", "A1")
        self.assertEqual(code, 0, output)
        self.assertNotIn("A2", output)

    def test_lists_what_there_is_when_asked_for_what_is_not(self):
        code, output = self.run_on({**self.noticed, **self.missed}, "--only", "A9")
        self.assertEqual(code, 2, output)
        self.assertRegex(output, "'A9' is none of .*A1, .*A2")

    def test_accepts_no_test_that_fails_by_itself_is_not_there_or_cannot_run(self):
        code, output = self.run_on({**self.noticed,
                                    **recorded("A3", "sound", "  return 2;", "  return 3;"),
                                    **recorded("A4", "nothing", "  return 2;", "  return 3;"),
                                    **recorded("A5", "skips", "  return 2;", "  return 3;"),
                                    **recorded("A6", "counts", "  return 2;", "  return two;")})
        self.assertEqual(code, 1, output)
        self.assertRegex(output, r"FAILS WITHOUT THE MISTAKE +A3")
        self.assertRegex(output, r"NO SUCH TEST +A4")
        self.assertRegex(output, r"skipped +A5")
        self.assertRegex(output, r"DOES NOT BUILD +A6")

    def test_ends_when_its_time_is_over(self):
        code, output = self.run_on(self.noticed, "--seconds", "0")
        self.assertEqual(code, 1, output)
        self.assertIn("NO TIME LEFT", output)
