"""weft_add_test, in a project of a user's that is configured, built and tested as users do."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HELPER = HERE.parents[1] / "integrations" / "cmake" / "WeftAddTest.cmake"
WEFT = os.environ["WEFT_COMMAND"]


def run(*command: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


class AddTest(unittest.TestCase):
    def test_a_project_runs_its_tests_on_weft(self) -> None:
        with tempfile.TemporaryDirectory() as build:
            configured = run("cmake", "-S", HERE / "cmake_project", "-B", build,
                             f"-DWEFT_ADD_TEST={HELPER}", f"-DWEFT_COMMAND={WEFT}")
            self.assertEqual(configured.returncode, 0, configured.stderr)
            built = run("cmake", "--build", build)
            self.assertEqual(built.returncode, 0, built.stdout)
            tested = run("ctest", "--test-dir", build, "--output-on-failure")
            self.assertEqual(tested.returncode, 0, tested.stdout)
            self.assertIn("100% tests passed, 0 tests failed out of 5", tested.stdout)

    def refusal(self, *lines: str, **settings: str) -> str:
        """What CMake says of a project with these lines."""
        with tempfile.TemporaryDirectory() as folder:
            text = "\n".join(["cmake_minimum_required(VERSION 3.22)", "project(refused LANGUAGES NONE)",
                              f"include({HELPER})", *lines])
            pathlib.Path(folder, "CMakeLists.txt").write_text(text, encoding="ascii")
            ended = run("cmake", "-S", folder, "-B", f"{folder}/build",
                        *(f"-D{name}={value}" for name, value in settings.items()))
            self.assertNotEqual(ended.returncode, 0)
            return " ".join(ended.stderr.split())

    def test_misuse_is_named(self) -> None:
        cases = {"weft_add_test(COMMAND x)": "NAME and COMMAND are needed",
                 "weft_add_test(NAME a COMMAND x DEVICE weft0 SEED 3)": "SEED is for FAULTS",
                 "weft_add_test(surplus NAME a COMMAND x)": "it is not known what these mean: surplus"}
        for line, message in cases.items():
            self.assertIn(message, self.refusal(line, WEFT_COMMAND=WEFT), line)

    def test_a_missing_weft_is_named_with_its_cure(self) -> None:
        self.assertIn("there is no weft command on the PATH",
                      self.refusal("set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)",
                                   "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)", "weft_add_test(NAME a COMMAND x)"))


if __name__ == "__main__":
    unittest.main()
