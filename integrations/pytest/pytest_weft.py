"""A pytest plugin: tests whose programs see weft's RDMA devices.

    # conftest.py
    pytest_plugins = ["pytest_weft"]

    def test_a_transfer(weft):
        server = weft.start("ib_write_bw", "-d", "weft0")
        client = weft.run("ib_write_bw", "-d", "weft0", "127.0.0.1")
        assert "BW average" in client.stdout
        assert server.finish().returncode == 0

    def test_a_lossy_network(weft_with):
        lossy = weft_with(faults="loss=1%", seed=7)
        ...

`weft` starts programs on one device, weft0; `weft_with` makes such a starter with the options of
`weft run`. What a test has started and not finished is ended with the test, and its output is shown
when the test fails. The command is the one on the PATH, or `--weft=PATH`, or $WEFT_COMMAND.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

DEFAULT_TIMEOUT_S = 60.0


class Program:
    """A program that runs on weft. Its output goes to files, so it never waits for a reader."""

    def __init__(self, arguments: Sequence[str], options: dict[str, Any]) -> None:
        self.name = arguments[arguments.index("--") + 1]
        self._stdout = tempfile.TemporaryFile("w+")  # pylint: disable=consider-using-with
        self._stderr = tempfile.TemporaryFile("w+")  # pylint: disable=consider-using-with
        self._process = subprocess.Popen(  # pylint: disable=consider-using-with
            arguments, stdin=subprocess.DEVNULL, stdout=self._stdout, stderr=self._stderr,
            text=True, start_new_session=True, **options)

    @property
    def pid(self) -> int:
        """The process id of `weft run`, which hands signals to the program."""
        return self._process.pid

    def output(self) -> tuple[str, str]:
        """What it has written until now: standard output, standard error."""
        def read(file: Any) -> str:
            file.flush()
            return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")
        return read(self._stdout), read(self._stderr)

    def finish(self, timeout: float = DEFAULT_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Waits until it ends by itself. Fails the test if it does not in this time."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            pytest.fail(f"{self.name} did not end within {timeout:g} s\n{self._report()}")
        return subprocess.CompletedProcess(self._process.args, status, *self.output())

    def stop(self, patience: float = 5.0) -> int:
        """Ends it and all that it started: asked first, killed if it does not listen."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                break
            os.killpg(self._process.pid, number)
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        return self._process.wait()

    def running(self) -> bool:
        return self._process.poll() is None

    def _report(self) -> str:
        stdout, stderr = self.output()
        return f"--- {self.name}: standard output\n{stdout}\n--- {self.name}: standard error\n{stderr}"


class Weft:
    """Starts programs that see RDMA devices."""

    def __init__(self, command: str, options: Sequence[str]) -> None:
        self._start_of_line = [command, "run", *options, "--"]
        self._started: list[Program] = []

    def start(self, *arguments: str | os.PathLike[str], **options: Any) -> Program:
        """Starts a program and goes on; `options` are those of subprocess.Popen (env, cwd)."""
        line = [*self._start_of_line, *map(os.fspath, arguments)]
        self._started.append(Program(line, options))
        return self._started[-1]

    def run(self, *arguments: str | os.PathLike[str], timeout: float = DEFAULT_TIMEOUT_S,
            check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end. With `check` the test fails if its status is not 0."""
        ended = self.start(*arguments, **options).finish(timeout)
        if check and ended.returncode != 0:
            pytest.fail(f"{os.fspath(arguments[0])} ended with status {ended.returncode}\n"
                        f"{ended.stdout}\n{ended.stderr}")
        return ended

    def run_python(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs this interpreter, for tests that use pyverbs."""
        return self.run(sys.executable, *arguments, **options)

    def close(self) -> list[str]:
        """Ends what still runs, and names it."""
        left = [program for program in self._started if program.running()]
        for program in left:
            program.stop()
        return [program.name for program in left]

    def transcript(self) -> str:
        """All that the programs wrote."""
        return "\n".join(program._report() for program in self._started)  # pylint: disable=protected-access


def options_of(devices: Sequence[str] = (), **settings: Any) -> list[str]:
    """The options of `weft run`: options_of(devices=["weft0"], faults="loss=1%", explain=True)"""
    options = [part for device in devices for part in ("--device", device)]
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            options.append(flag)
        elif value not in (False, None):
            options += [flag, str(value)]
    return options


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("weft").addoption("--weft", metavar="PATH", help="the weft command (the one on the PATH)")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    starters: list[Weft] = getattr(item, "weft_starters", [])
    if report.failed:
        for starter in starters:
            report.sections.append(("programs on weft", starter.transcript()))


@pytest.fixture(scope="session")
def weft_command(request: pytest.FixtureRequest) -> str:
    """The path of the weft command. A machine without it is an error, not a skipped test."""
    wanted = request.config.getoption("--weft") or os.environ.get("WEFT_COMMAND") or "weft"
    found = shutil.which(wanted)
    if found is None:
        pytest.fail(f"there is no command {wanted!r}: install weft, or name it by --weft=PATH or $WEFT_COMMAND")
    return found


@pytest.fixture
def weft_with(weft_command: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Weft]]:
    """Makes starters with the options of `weft run`."""
    starters: list[Weft] = []
    request.node.weft_starters = starters

    def make(**settings: Any) -> Weft:
        starters.append(Weft(weft_command, options_of(**settings)))
        return starters[-1]

    yield make
    for starter in starters:
        starter.close()


@pytest.fixture
def weft(weft_with: Callable[..., Weft]) -> Weft:
    """Starts programs that see one device, weft0."""
    return weft_with()
