"""Programs that are started in a session of their own, write into files, and are gone afterwards,
with everything they started."""

import ctypes
import os
import pathlib
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 2  # between asking a program to end and killing it
STEP_S = 0.01


def adopt_orphans():
    """What our programs leave behind becomes our child, so that end_all() finds it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Program:
    """One started command."""

    def __init__(self, command, folder, label, env):
        self.output_path = pathlib.Path(folder) / f"{label}.out"
        with open(self.output_path, "wb") as output:
            self.process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def output(self):
        return self.output_path.read_text(errors="replace")

    def ended(self):
        return self.process.poll() is not None

    def status(self):
        """As a shell would say it; None while it runs."""
        return self.process.poll()

    def wait(self, until):
        """Waits for its end, until that monotonic time; whether it has ended."""
        try:
            self.process.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_asleep(self, long_s, until):
        """Waits until it and all it started have slept for so long."""
        asleep_since = time.monotonic()
        while time.monotonic() < min(asleep_since + long_s, until):
            if any(state not in "SZ" for state in states(self.process.pid)):
                asleep_since = time.monotonic()
            time.sleep(STEP_S)

    def send(self, number):
        if not self.ended():
            os.killpg(self.process.pid, number)

    def end(self):
        """Asks, then kills."""
        self.send(signal.SIGTERM)
        if not self.wait(time.monotonic() + GRACE_S):
            self.send(signal.SIGKILL)
            self.process.wait()


def states(session):
    """The scheduler's letter for each thread of a session."""
    for path in pathlib.Path("/proc").glob("[0-9]*/task/*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            yield fields[0]


def children():
    """The processes whose parent we are."""
    found = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            found |= {int(pid) for pid in (task / "children").read_text().split()}
        except OSError:
            continue
    return found


def end_all(programs):
    """Ends these programs and whatever they left behind."""
    for program in programs:
        program.end()
    for pid in children():
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def describe(status):
    """An exit status in words."""
    if status is None:
        return "still runs"
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        try:
            return f"ended by {signal.Signals(number).name}"
        except ValueError:
            pass
    return f"exit status {status}"


def crashed(status):
    """Whether it ended in a way that no program intends."""
    bad = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
    return status is not None and (-status in bad or status - 128 in bad)
