"""runner.py and run.py on made-up programs, with a made-up `weft` that only starts them."""

import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import processes
import runner
from case import Case

FOLDER = pathlib.Path(__file__).parents[1]
LISTENER = ("import socket,sys; s = socket.create_server(('127.0.0.1', {port})); "
            "s.accept()[0].recv(1); ")
CALLER = "import socket; socket.create_connection(('127.0.0.1', {port})).send(b'x'); print('hello')"


def python(code):
    return (sys.executable, "-c", code)


class Runner(unittest.TestCase):
    """One case in, its status out."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.weft = pathlib.Path(self.folder.name) / "weft"
        self.weft.write_text('#!/bin/sh\n[ "$1 $2" = "run --" ] || exit 9\nshift 2\nexec "$@"\n')
        self.weft.chmod(0o755)
        processes.adopt_orphans()

    def tearDown(self):
        self.folder.cleanup()

    def run_case(self, command, **more):
        # Far more than they need, also on a busy machine.
        case = Case("made-up", "made-up", command, **{"timeout_s": 60, **more})
        return runner.run_case(case, self.weft, self.folder.name)

    def test_a_pair_that_does_its_work_passes(self):
        result = self.run_case(python(CALLER), server=python(LISTENER), expect="^hello$")
        self.assertEqual((result.status, result.note), (runner.PASSED, ""))

    def test_a_missing_output_fails(self):
        result = self.run_case(python("print('bye')"), expect="^hello$")
        self.assertEqual(result.status, runner.FAILED)
        self.assertIn("bye", result.output)

    def test_a_bad_status_of_either_side_fails(self):
        result = self.run_case(python("raise SystemExit(3)"))
        self.assertEqual((result.status, result.note),
                         (runner.FAILED, "the program: exit status 3"))
        result = self.run_case(python(CALLER), server=python(LISTENER + "sys.exit(4)"))
        self.assertEqual((result.status, result.note), (runner.FAILED, "the server: exit status 4"))

    def test_programs_can_be_interrupted_wherever_the_suite_was_started(self):
        ask = "import signal; raise SystemExit(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
        suite = ("import runner, subprocess, sys; runner.install(); "
                 f"raise SystemExit(subprocess.run([sys.executable, '-c', '{ask}']).returncode)")
        run = subprocess.run(["sh", "-c", 'trap "" INT; exec "$@"', "sh", *python(suite)],
                             cwd=FOLDER, check=False, timeout=30)
        self.assertEqual(run.returncode, 0)

    def test_a_remark_is_the_note_of_what_passes_alone(self):
        result = self.run_case(python("pass"), remark="needs luck")
        self.assertEqual((result.status, result.note), (runner.PASSED, "needs luck"))
        result = self.run_case(python("raise SystemExit(3)"), remark="needs luck")
        self.assertEqual((result.status, result.note),
                         (runner.FAILED, "the program: exit status 3"))

    def test_a_lost_race_is_run_again_but_not_for_ever(self):
        first = ("import os, sys; mark = '{tools}/mark'\n"
                 "if not os.path.exists(mark): open(mark, 'w').close(); sys.exit(16)\n")
        result = self.run_case(python(first + CALLER), server=python(LISTENER), lost_race=16)
        self.assertEqual(result.status, runner.PASSED)
        self.assertIn("was lost before: 1", result.note)
        result = self.run_case(python("raise SystemExit(16)"), server=python(LISTENER),
                               lost_race=16)
        self.assertEqual((result.status, result.note),
                         (runner.FAILED, "the client: exit status 16"))

    def test_a_server_that_dies_early_fails_at_once(self):
        begun = time.monotonic()
        result = self.run_case(python(CALLER), server=python("raise SystemExit(5)"))
        self.assertEqual(result.status, runner.FAILED)
        self.assertLess(time.monotonic() - begun, 5)

    def test_a_hang_fails_and_leaves_nothing_behind(self):
        code = "import os,time; os.fork() or os.setsid(); time.sleep(60)"
        result = self.run_case(python(code), timeout_s=1)
        self.assertEqual((result.status, result.note), (runner.FAILED, "the program hangs"))
        self.assertEqual(processes.children(), set())

    def test_an_absent_feature_is_a_skip_only_when_it_is_refused_in_order(self):
        refused = self.run_case(python("raise SystemExit(1)"), absent="no such thing")
        self.assertEqual((refused.status, refused.note), (runner.SKIPPED, "no such thing"))
        crash = self.run_case(python("import os; os.abort()"), absent="no such thing")
        self.assertEqual(crash.status, runner.FAILED)
        hang = self.run_case(python("import time; time.sleep(60)"), absent="no", timeout_s=1)
        self.assertEqual(hang.status, runner.FAILED)
        stale = self.run_case(python("pass"), absent="no such thing")
        self.assertEqual(stale.status, runner.FAILED)

    def test_who_is_left_after_a_kill_has_to_end_with_an_error(self):
        listener = LISTENER.replace("recv(1)", "recv(2); time.sleep({server})").replace(
            "import socket,sys", "import socket,sys,time")
        # On a busy machine it begins after the server was killed, and must behave as if it had not.
        caller = ("import contextlib, socket, time\n"
                  "with contextlib.suppress(OSError):\n"
                  "    socket.create_connection(('127.0.0.1', {port})).send(b'x')\n"
                  "time.sleep({client}); raise SystemExit({status})")

        def kill_server(client, status, **more):
            fill = {"{client}": client, "{status}": status}
            code = caller
            for key, value in fill.items():
                code = code.replace(key, str(value))
            return self.run_case(python(code), server=python(listener.replace("{server}", "60")),
                                 killed="server", **more)

        itself = [self.run_case(python(f"raise SystemExit({status})"), killed="itself").note
                  for status in (0, 1)]
        self.assertEqual(itself, ["the program did not notice", ""])
        self.assertEqual(kill_server(3, 1).status, runner.PASSED)
        self.assertEqual(kill_server(3, 0).note, "the client did not notice")
        self.assertEqual(kill_server(600, 1, timeout_s=6).note, "the client hangs")
        with unittest.mock.patch.object(runner, "KILL_AFTER_S", 6):
            self.assertIn("too early", kill_server(0, 1).note)

    def test_a_program_that_is_not_installed_is_skipped(self):
        result = self.run_case(("no_such_program_here",))
        self.assertEqual((result.status, result.note),
                         (runner.SKIPPED, "not installed: no_such_program_here"))

    def test_a_wrong_file_fails(self):
        result = self.run_case(python("pass"), check=lambda folder: "the copy differs")
        self.assertEqual((result.status, result.note), (runner.FAILED, "the copy differs"))


class Command(unittest.TestCase):
    """run.py's exit status."""

    def test_a_name_that_no_case_has_is_wrong_usage(self):
        run = subprocess.run(
            [sys.executable, FOLDER / "run.py", "--weft", sys.executable, "--only", "no such case"],
            capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn("no case has that name: --list shows", run.stderr)

    def test_a_failure_is_a_failure(self):
        run = subprocess.run(
            [sys.executable, FOLDER / "run.py", "--weft", "/bin/false", "--case", "ibv_devices"],
            capture_output=True, text=True, check=False)
        if "not installed" in run.stdout:
            self.assertEqual(run.returncode, 77)
        else:
            self.assertEqual(run.returncode, 1)
