"""Runs what pages of the documentation tell their readers to type, in order, page by page, and
compares what comes with what the page shows. Each page has a folder like that of a reader who has
built weft (build/bin, build/lib, include, examples; weft in the PATH), and namespaces of its own,
which end with it: a network with nothing but loopback, in which the page's commands are root.

    run_pages.py --build build/release docs/tutorial/*.md     some pages
    run_pages.py --build build/release --list README.md       what would be run, and what not"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import page_blocks
from terminal import Terminal

SKIPPED = 77
COMMAND_SECONDS = 120  # also on a machine that has other work
INSIDE = "WEFT_DOCS_INSIDE"
NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork",
              "--kill-child", "--mount-proc"]
# What a reader may write and a test has its own of; sudo does nothing where all is root's.
PREPARE = """
set -e
ip link set lo up
mount -t tmpfs none /dev/shm
mount -t tmpfs none /run
mkdir /run/netns
"""


class Failed(Exception):
    """A command did something else than its page says."""


def listens(port: int) -> bool:
    """Whether a process of this network namespace listens to the TCP port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


class Reader:
    """Does what the page says, in its terminals."""

    def __init__(self, folder: pathlib.Path, environment: dict[str, str]):
        self.folder, self.environment = folder, environment
        self.scripts = pathlib.Path(tempfile.mkdtemp(dir=folder.parent))
        self.terminals: dict[str, Terminal] = {}
        self.under_way: dict[str, page_blocks.Step] = {}
        self.number = 0

    def follow(self, step: page_blocks.Step) -> None:
        if step.file is not None:
            (self.folder / step.file).write_text(step.command)
            return
        name = step.terminal
        if name not in self.terminals:
            self.terminals[name] = Terminal(self.folder, self.scripts, self.environment)
        self.finish(name)
        self.number += 1
        self.terminals[name].start(self.number, step.command)
        self.under_way[name] = step
        if name:
            self.wait_until_ready(self.terminals[name], step)
        else:
            self.finish(name)

    def wait_until_ready(self, terminal: Terminal, step: page_blocks.Step) -> None:
        """Of a command in another terminal: it listens, or has printed the first line shown."""
        deadline = time.monotonic() + COMMAND_SECONDS
        first = [line for line in step.shown if line.strip()][:1]
        while terminal.status is None:
            terminal.read(0.05)
            if step.listens is not None:
                if listens(step.listens):
                    return
            elif page_blocks.missing_line(first, terminal.output) is None:
                return
            if time.monotonic() > deadline:
                raise Failed(self.told(step, terminal, "is not ready"))

    def finish(self, name: str) -> None:
        """Waits for the end of what was begun in a terminal, and judges it."""
        step = self.under_way.pop(name, None)
        if step is None:
            return
        terminal = self.terminals[name]
        if step.stays:
            self.wait_for_lines(terminal, step)
        elif not terminal.wait(COMMAND_SECONDS):
            raise Failed(self.told(step, terminal, "does not end"))
        elif terminal.status != step.status:
            raise Failed(self.told(step, terminal, f"ended with status {terminal.status}"))
        if (line := page_blocks.missing_line(step.shown, terminal.output)) is not None:
            raise Failed(self.told(step, terminal, f"did not print: {line}"))

    @staticmethod
    def wait_for_lines(terminal: Terminal, step: page_blocks.Step) -> None:
        """Of a command that does not end: until it has printed what the page shows."""
        deadline = time.monotonic() + COMMAND_SECONDS
        while (page_blocks.missing_line(step.shown, terminal.output) is not None
               and time.monotonic() < deadline):
            terminal.read(0.1)

    @staticmethod
    def told(step: page_blocks.Step, terminal: Terminal, what: str) -> str:
        output = "\n".join(terminal.output.splitlines()[-40:])
        return f"line {step.line}: {step.command}\n  {what}. Its output:\n{output}"

    def finish_all(self) -> None:
        for name in list(self.under_way):
            self.finish(name)

    def close(self) -> None:
        for terminal in self.terminals.values():
            terminal.close()


def make_folder(root: pathlib.Path, build: pathlib.Path, top: pathlib.Path) -> pathlib.Path:
    """A folder like a checkout after `make build`."""
    folder = top / "weft"
    (folder / "build").mkdir(parents=True)
    for name in ("bin", "lib"):
        (folder / "build" / name).symlink_to(build / name)
    for name in ("include", "examples"):
        (folder / name).symlink_to(root / name)
    tools = top / "tools"
    tools.mkdir()
    (tools / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tools / "sudo").chmod(0o755)
    return folder


def environment_of(folder: pathlib.Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("WEFT_") and name not in ("LD_PRELOAD", "XDG_RUNTIME_DIR")}
    path = [folder / "build/bin", folder.parent / "tools", kept.get("PATH", "/usr/bin:/bin"),
            "/usr/sbin:/sbin"]
    return {**kept, "HOME": str(folder.parent), "TMPDIR": str(folder.parent), "LC_ALL": "C.UTF-8",
            "PATH": ":".join(map(str, path)), "TERM": "dumb"}


def run_page(root: pathlib.Path, build: pathlib.Path, page: pathlib.Path) -> int:
    """In the namespaces. The number of commands that ran."""
    subprocess.run(["bash", "-c", PREPARE], check=True)
    steps, _ = page_blocks.steps_of(page.read_text())
    with tempfile.TemporaryDirectory(prefix="weft-docs-") as top:
        folder = make_folder(root, build, pathlib.Path(top))
        reader = Reader(folder, environment_of(folder))
        try:
            for step in steps:
                reader.follow(step)
            reader.finish_all()
        finally:
            reader.close()
    return reader.number


def run_inside(root: pathlib.Path, build: pathlib.Path, page: pathlib.Path) -> int:
    try:
        print(f"{page}: {run_page(root, build, page)} commands ran as the page says")
        return 0
    except (Failed, page_blocks.PageError) as problem:
        print(f"{page}, {problem}")
        return 1


def namespaces_work() -> bool:
    return subprocess.run([*NAMESPACES, "bash", "-c", PREPARE], capture_output=True,
                          check=False).returncode == 0


def list_page(page: pathlib.Path) -> None:
    for step in page_blocks.steps_of(page.read_text())[0]:
        what = f"save {step.file}" if step.file else f"{step.terminal}$ {step.command}"
        print(f"{page}:{step.line}: {what}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="has bin/ and lib/")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("pages", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    root, build = options.root.resolve(), options.build.resolve()
    if os.environ.get(INSIDE):
        return run_inside(root, build, options.pages[0])
    if not options.list and not namespaces_work():
        print("skipped: this machine allows no namespaces of one's own (unshare, ip, mount)")
        return SKIPPED
    failures = not_run = 0
    for page in options.pages:
        try:
            reasons = page_blocks.steps_of(page.read_text())[1]
        except page_blocks.PageError as problem:
            print(f"{page}, {problem}")
            failures += 1
            continue
        not_run += len(reasons)
        for reason in reasons:
            print(f"{page}, not run: {reason}")
        if options.list:
            list_page(page)
            continue
        ended = subprocess.run([*NAMESPACES, sys.executable, __file__, "--root", root, "--build",
                                build, page], env={**os.environ, INSIDE: "1"}, check=False)
        failures += ended.returncode != 0
    print(f"{len(options.pages)} pages, {failures} with problems, {not_run} blocks not run")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
