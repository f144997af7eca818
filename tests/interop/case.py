"""What a case is: one program, or a server and a client, that nobody here wrote, and how to tell
that it did its work. The tables in clients/ are made of these.

In the words of a command and in the values of the environment, {port} is a free port of this run,
{dir} is a folder of this run alone and {tools} one that all cases share."""

import dataclasses
import shutil
import socket
import typing


@dataclasses.dataclass(frozen=True)
class Case:
    client: str  # the heading under which the case is listed
    name: str  # unique: the program with the options that matter
    command: tuple  # the program, or the client of a pair
    server: tuple = ()  # starts first; the client starts when it listens on {port}
    expect: str = ""  # a regular expression that the client's output has to match
    expect_server: str = ""
    quick: bool = False  # part of `make test`
    timeout_s: float = 60  # generous: most poll without sleeping, and the machine may be busy
    server_ends: bool = True  # whether the server ends by itself, and then with status 0
    port: int = 0  # of a program that cannot be told another one
    listens: bool = True  # whether the server can be seen to listen; if not, it gets a moment
    ended_by: int = 0  # a program that runs until it gets this signal
    killed: str = ""  # "server" or "client": in the middle; then the other has to end, with an error
    # or, if its status tells nothing, with output that matches `expect`. "itself": a part of a
    # program kills itself, and the whole has to end with an error.
    lost_race: int = 0  # a client's status when its own race with the server's end is lost, on any
    # device: it is played again, a few times at most
    aborts: bool = False  # whether SIGABRT is how the program ends after an error
    weft: tuple = ()  # options of `weft run`
    env: tuple = ()  # (name, value) pairs
    remark: str = ""  # what somebody who runs the program should know: the note of a case that passes
    needs: tuple = ()  # programs beside the commands' first words
    raw_sockets: bool = False  # whether it needs the capability CAP_NET_RAW
    absent: str = ""  # a feature that weft does not have: the program has to fail, but in order
    prepare: typing.Optional[typing.Callable] = None  # called with (dir, tools)
    check: typing.Optional[typing.Callable] = None  # called with (dir), gives what is wrong or ""

    def may_run(self):
        """Whether this process has what the case needs beside programs."""
        if not self.raw_sockets:
            return True
        try:
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
        except PermissionError:
            return False
        return True

    def missing(self):
        """The programs that this case needs and that are not installed."""
        words = [self.command[0], *self.server[:1], *self.needs]
        return sorted({word for word in words if "{" not in word and not shutil.which(word)})


def words(text, *more):
    """words("a -b", "c d") is ("a", "-b", "c d")."""
    return (*text.split(), *more)
