"""fio with ioengine=rdma: the client's verb decides what moves the blocks. fio takes the side
that reads for the server, whatever the verb. It allows no retry when a send finds no
receive posted, so the server gets a long queue and the client a short one."""

from case import Case, words

PACKAGES = ("fio",)
CLIENT = "fio"
COMMON = "--ioengine=rdma --bs=64k --size=16m --port={port} --minimal"


def pair(verb):
    return Case(CLIENT, f"fio ioengine=rdma verb={verb}",
                words(f"fio --name=client {COMMON} --iodepth=2 --hostname=127.0.0.1 --verb={verb} "
                      "--rw=write"),
                words(f"fio --name=server {COMMON} --iodepth=128 --rw=read"),
                expect=r"^3;fio-[\d.]+;client;0;0;")


CASES = tuple(pair(verb) for verb in ("write", "read", "send"))
