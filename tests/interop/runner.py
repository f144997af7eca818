"""Runs one case and says what became of it: passed, failed, or skipped with the reason."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time

import ports
import processes

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
SETTLE_S = 0.05  # for a server to be called asleep
AWAKE_S = 2  # for a server that never sleeps
RACES_MOST = 3  # that a client may lose
UNSEEN_S = 0.5  # for a server that cannot be seen to listen
SERVER_END_S = 10  # for a server to end after its client
KILL_AFTER_S = 1.5  # for a pair to be at work
MOURN_S = 30  # for the side that is left to end


@dataclasses.dataclass
class Result:
    status: str
    note: str = ""
    output: str = ""  # of both sides, when it failed
    seconds: float = 0


class Failure(Exception):
    """What is wrong with a run."""


class Run:
    """One case while it runs."""

    def __init__(self, case, weft, tools):
        self.case, self.weft, self.tools = case, weft, tools
        self.port = case.port or ports.free_port()
        self.folder = tempfile.mkdtemp(prefix="weft-interop-")
        self.until = time.monotonic() + case.timeout_s
        self.programs = {}

    def fill(self, word):
        return (word.replace("{port}", str(self.port)).replace("{dir}", self.folder)
                .replace("{tools}", str(self.tools)))

    def start(self, label, command):
        env = dict(os.environ, LC_ALL="C.UTF-8")
        env.update((name, self.fill(value)) for name, value in self.case.env)
        words = [str(self.weft), "run", *self.case.weft, "--", *map(self.fill, command)]
        self.programs[label] = processes.Program(words, self.folder, label, env)
        return self.programs[label]

    def await_server(self, server):
        if not self.case.listens:
            server.wait(time.monotonic() + UNSEEN_S)
        while self.case.listens and not ports.listens(self.port):
            if server.ended():
                raise Failure("the server ended before it listened: "
                              + processes.describe(server.status()))
            if time.monotonic() > self.until:
                raise Failure("the server never listened")
            time.sleep(processes.STEP_S)
        # A port of rdma_cm is taken some time before its server listens; then it waits.
        if not ports.tcp_listens(self.port):
            server.wait_asleep(SETTLE_S, time.monotonic() + AWAKE_S)

    def end_in_order(self, label, until):
        """Waits for a program's end, and wants it to be a good one."""
        program = self.programs[label]
        if not program.wait(until):
            raise Failure(f"the {label} hangs")
        if program.status() != 0:
            raise Failure(f"the {label}: {processes.describe(program.status())}")

    def run_pair(self):
        server = self.start("server", self.case.server)
        self.await_server(server)
        self.start("client", self.case.command)
        self.end_in_order("client", self.until)
        if self.case.server_ends:
            self.end_in_order("server", min(self.until, time.monotonic() + SERVER_END_S))
        elif server.ended():
            raise Failure(f"the server: {processes.describe(server.status())}")

    def run_killed(self):
        """Kills one side at its work; the other has to notice, and to end as after an error."""
        if self.case.killed == "itself":
            program = self.start("program", self.case.command)
            if not program.wait(self.until):
                raise Failure("the program hangs")
            if program.status() == 0:
                raise Failure("the program did not notice")
            return
        self.await_server(self.start("server", self.case.server))
        self.start("client", self.case.command)
        time.sleep(KILL_AFTER_S)
        for label, program in self.programs.items():
            if program.ended():
                raise Failure(f"the {label} ended too early: {processes.describe(program.status())}")
        left = "client" if self.case.killed == "server" else "server"
        self.programs[self.case.killed].send(signal.SIGKILL)
        if not self.programs[left].wait(min(self.until, time.monotonic() + MOURN_S)):
            raise Failure(f"the {left} hangs")
        status = self.programs[left].status()
        noticed = self.case.expect and re.search(self.case.expect, self.output(left))
        if status == 0 and not noticed:
            raise Failure(f"the {left} did not notice")
        aborted = abs(status) in (signal.SIGABRT, 128 + signal.SIGABRT)
        if processes.crashed(status) and not (aborted and self.case.aborts):
            raise Failure(f"the {left}: {processes.describe(status)}")

    def run_until_signal(self):
        program = self.start("program", self.case.command)
        while not re.search(self.case.expect, program.output(), re.MULTILINE):
            if program.ended() or time.monotonic() > self.until:
                break
            time.sleep(processes.STEP_S)
        if program.ended():
            raise Failure(f"ended by itself: {processes.describe(program.status())}")
        program.send(self.case.ended_by)
        if not program.wait(min(self.until, time.monotonic() + processes.GRACE_S)):
            raise Failure("does not end by its signal")

    def output(self, label):
        return self.programs[label].output() if label in self.programs else ""

    def execute(self):
        case = self.case
        if case.prepare:
            case.prepare(self.folder, self.tools)
        if case.ended_by:
            self.run_until_signal()
        elif case.killed:
            return self.run_killed()
        elif case.server:
            self.run_pair()
        else:
            self.start("program", case.command)
            self.end_in_order("program", self.until)
        own = self.output("client") + self.output("program")
        for expected, text in ((case.expect, own), (case.expect_server, self.output("server"))):
            if not re.search(expected, text, re.MULTILINE):
                raise Failure(f"the output does not match {expected!r}")
        problem = case.check(self.folder) if case.check else ""
        if problem:
            raise Failure(problem)

    def crash(self):
        """Who crashed, or nothing."""
        for label, program in self.programs.items():
            if processes.crashed(program.status()):
                return f"the {label}: {processes.describe(program.status())}"
        return ""

    def everything(self):
        return "\n".join(f"--- {label}\n{program.output()}"
                         for label, program in self.programs.items())

    def close(self):
        processes.end_all(self.programs.values())
        shutil.rmtree(self.folder, ignore_errors=True)


def judge(case, failure, crash, hangs):
    """The status and the note. A feature that is absent has to be refused, not to crash or hang,
    and a case that is no longer absent has to be listed as one that passes."""
    if not case.absent:
        return (FAILED, failure) if failure else (PASSED, case.remark)
    if not failure:
        return FAILED, "passes, although it is listed as absent"
    if crash or hangs:
        return FAILED, f"absent, but {crash or failure}"
    return SKIPPED, case.absent


def play(case, weft, tools):
    """Runs it once: what failed, what crashed, and what was written if anything failed."""
    run = Run(case, weft, tools)
    failure = ""
    try:
        run.execute()
    except Failure as reason:
        failure = str(reason)
    finally:
        crash = run.crash()
        output = run.everything() if failure else ""
        run.close()
    return failure, crash, output


def run_case(case, weft, tools):
    """Runs one case to its end. `weft` is the command, `tools` a folder for what cases build."""
    missing = case.missing()
    if missing:
        return Result(SKIPPED, "not installed: " + ", ".join(missing))
    if not case.may_run():
        return Result(SKIPPED, "needs the capability CAP_NET_RAW")
    begun = time.monotonic()
    pathlib.Path(tools).mkdir(parents=True, exist_ok=True)
    lost = f"the client: {processes.describe(case.lost_race)}" if case.lost_race else None
    for races in range(RACES_MOST):
        failure, crash, output = play(case, weft, tools)
        if failure != lost:
            break
    # The other side of a crash or a refusal tends to wait for ever: only the client's counts.
    status, note = judge(case, failure, crash, "hangs" in failure)
    if status == PASSED and races > 0:
        note = f"its own race with the server's end was lost before: {races}"
    return Result(status, note, output if status == FAILED else "", time.monotonic() - begun)


def end_by_signal(number, _frame):
    """So that a run which is ended from outside takes its programs along."""
    raise SystemExit(128 + number)


def install():
    """Once in a process, before the first case."""
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, end_by_signal)
    # A shell that starts us in the background has us ignore interrupts, and programs would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
