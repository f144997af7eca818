"""Runs commands pinned to a core, with a bound on how long they take, and ends all of them whatever
happens."""

import contextlib
import os
import signal
import subprocess
import time

BOUND_S = 30


def _leave(*_):
    """Whoever ends us by a signal wants what we started to end too."""
    raise SystemExit(128 + signal.SIGTERM)


signal.signal(signal.SIGTERM, _leave)


class Failed(Exception):
    """A command failed; the text says how."""


def end(process, signals=(signal.SIGTERM, signal.SIGKILL)):
    """Gives a launcher the chance to end what it launched, then insists."""
    for number in signals:
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
    process.wait()


@contextlib.contextmanager
def started(command, core=None, env=None, inherit=False):
    """The process of a command, in a group of its own, until the end of the block."""
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=os.environ | (env or {}),
                          preexec_fn=pin, start_new_session=True, close_fds=not inherit) as process:
        try:
            yield process
        finally:
            end(process)


def output_of(command, core=None, env=None, partial=False, inherit=False, bound_s=BOUND_S):
    """What a command prints; Failed when it fails, unless a part of the output is good enough: then
    the output, and the reason or None."""
    with started(command, core, env, inherit) as process:
        try:
            out, err = process.communicate(timeout=bound_s)
            status = process.returncode
            reason = None if status == 0 else err.strip() or f"exit status {status}"
        except subprocess.TimeoutExpired:
            end(process)
            out, err = process.communicate()
            reason = f"not done after {bound_s} s"
    if partial:
        return out, reason
    if reason:
        raise Failed(reason.splitlines()[-1])
    return out


def wait_for_listener(port, process):
    """Until somebody listens on a TCP port of the process's host, or network namespace."""
    listening = f":{port:04X} "
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and process.poll() is None:
        for table in ("tcp", "tcp6"):
            path = f"/proc/{process.pid}/net/{table}"
            with contextlib.suppress(OSError), open(path, encoding="ascii") as lines:
                if any(line.split()[1].endswith(listening.strip()) and line.split()[3] == "0A"
                       for line in list(lines)[1:]):
                    return
        time.sleep(0.01)
    raise Failed(f"no server on port {port}")
