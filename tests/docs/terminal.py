"""A terminal of a reader: a shell that keeps its folder and variables from command to command. What
programs print goes to a pseudo-terminal, so that it comes line by line, as a reader sees it."""

import os
import pathlib
import pty
import re
import selectors
import subprocess
import termios
import time

DONE = re.compile(r"\n@@ended (\d+)@@\n")


class Terminal:
    def __init__(self, folder: pathlib.Path, scripts: pathlib.Path, environment: dict[str, str]):
        self.scripts = scripts
        self.output = ""
        self.status: int | None = 0
        self.reader, writer = pty.openpty()
        modes = termios.tcgetattr(writer)
        modes[1] &= ~termios.OPOST  # no carriage returns
        termios.tcsetattr(writer, termios.TCSANOW, modes)
        # Commands come by a pipe: a shell whose input is a terminal would print prompts.
        self.shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-s"], cwd=folder,
                                      env=environment, stdin=subprocess.PIPE, stdout=writer,
                                      stderr=writer, start_new_session=True)
        os.close(writer)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.reader, selectors.EVENT_READ)

    def start(self, number: int, command: str) -> None:
        script = self.scripts / f"step_{number}.sh"
        script.write_text(command + "\n")
        self.output, self.status = "", None
        assert self.shell.stdin is not None
        self.shell.stdin.write(
            f". {script} </dev/null; printf '\\n@@ended %d@@\\n' $?\n".encode())
        self.shell.stdin.flush()

    def read(self, seconds: float) -> None:
        """Takes what was printed, waiting for at most so long; `status` is set at the end."""
        if not self.selector.select(seconds):
            return
        try:
            self.output += os.read(self.reader, 65536).decode(errors="replace")
        except OSError:  # the shell has ended, by `exit`
            self.status = self.shell.wait()
            return
        if ended := DONE.search(self.output):
            self.output, self.status = self.output[:ended.start()], int(ended[1])

    def wait(self, seconds: float) -> bool:
        """Until the command has ended. False: it has not."""
        deadline = time.monotonic() + seconds
        while self.status is None and time.monotonic() < deadline:
            self.read(0.1)
        return self.status is not None

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        self.selector.close()
        os.close(self.reader)
