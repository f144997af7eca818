"""fio with ioengine=rdma: the client's verb decides what moves the blocks. fio takes the side
that reads for the server, whatever the verb."""

from case import Case, words

PACKAGES = ("fio",)
CLIENT = "fio"
COMMON = "--ioengine=rdma --bs=64k --size=64m --iodepth=8 --port={port} --minimal"


def pair(verb):
    return Case(CLIENT, f"fio ioengine=rdma verb={verb}",
                words(f"fio --name=client {COMMON} --hostname=127.0.0.1 --verb={verb} "
                      "--rw=write"),
                words(f"fio --name=server {COMMON} --rw=read"), expect=r"^3;fio-[\d.]+;client;0;0;",
                timeout_s=40)


CASES = tuple(pair(verb) for verb in ("write", "read", "send"))
