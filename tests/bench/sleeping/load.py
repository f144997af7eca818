"""Load for the contestants: processes that spin, as many as asked for, wherever the scheduler puts
them."""

import contextlib
import os

SPINNER = ["sh", "-c", "while :; do :; done"]


def cores():
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def spinners(count, started):
    """`started` is commands.started: it ends them whatever happens."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(started(SPINNER))
        yield
