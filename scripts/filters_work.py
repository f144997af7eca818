"""Whether the kernel compiles filters of packets and of system calls: exit 0, or 1 when it is stuck.

Linux 6.18 is stuck for good after a thousand filters were let go at once: whoever asks for one then
never returns, past every signal. So a child asks, and nobody waits for a child that does not return.
"""

import ctypes
import os
import socket
import struct
import sys
import time

SO_ATTACH_FILTER = 26
BPF_RET = 0x06
PATIENCE_S = 10


def attach_a_filter():
    code = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RET, 0, 0, 0))
    program = struct.pack("HL", 1, ctypes.addressof(code))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def main():
    child = os.fork()
    if child == 0:
        os.closerange(0, 256)  # nobody waits for the end of its output
        try:
            attach_a_filter()
        except OSError:
            pass  # refused at once, which is an answer
        os._exit(0)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0] == child:
            return 0
        time.sleep(0.005)
    return 1


if __name__ == "__main__":
    sys.exit(main())
