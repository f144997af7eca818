"""Runs programs that sleep until a message comes, in turn: eventfds, TCP with epoll, verbs on weft
by each way to sleep, UCX, and real programs; on a quiet machine and under load. Writes the samples
as JSON for scripts/collect_bench.py."""

import argparse
import json
import pathlib
import random
import sys
import time

import contestant
import load
import places
from echoes import Eventfd, Tcp, Verbs
from programs import Iperf, Rping, Rstream, Tgt
from tools import LossyLatency, PingPong, Qperf, UcxAsleep

commands = contestant.commands
MANY = (16, 64)
LOAD_SECONDS = 0.8


def asleep(bin_folder, where):
    """Latency, rate and processor time on a machine that does nothing else."""
    yield Eventfd(bin_folder, where["shm"])
    yield Eventfd(bin_folder, where["shm"]).free()
    yield Tcp(bin_folder, where["loopback"]).free()
    for place in (where["shm"], where["loopback"]):
        yield PingPong(bin_folder, place).free()
    for name, place in where.items():
        yield PingPong(bin_folder, place)
        yield UcxAsleep(bin_folder, place)
        for wait in ("block", "epoll", "poll") if name == "shm" else ("block", "epoll"):
            yield Verbs(bin_folder, place, wait)
        yield Verbs(bin_folder, place, "epoll", idle=True)
        for connections in MANY:
            yield Verbs(bin_folder, place, "epoll", connections=connections)
        if name == "shm":  # its TCP is that of loopback
            yield Verbs(bin_folder, place, "epoll", connections=64, channels=True)
            continue
        yield Tcp(bin_folder, place, idle=True)
        for connections in (1, *MANY):
            yield Tcp(bin_folder, place, connections=connections)


def programs(bin_folder, where):
    place = where["shm"]
    yield Rping(bin_folder, place)
    yield UcxAsleep(bin_folder, place, on_weft=True)
    for test in ("rc_lat", "tcp_lat"):
        yield Qperf(bin_folder, place, test)
    for rsockets in (True, False):
        yield Rstream(bin_folder, place, rsockets)
        yield Iperf(bin_folder, place, rsockets)
    for lld in ("iser", "iscsi"):
        yield Tgt(bin_folder, place, lld)


def loaded(bin_folder, where, label):
    """Beside spinning processes."""
    for name, place in where.items():
        yield Verbs(bin_folder, place, "epoll", seconds=LOAD_SECONDS).under_load(label)
        if name != "loopback":  # for the time it takes
            yield Verbs(bin_folder, place, "epoll", seconds=LOAD_SECONDS).under_load(label).free()
        if name != "shm":  # its TCP is that of loopback
            yield Tcp(bin_folder, place, seconds=LOAD_SECONDS).under_load(label)
            yield Tcp(bin_folder, place, seconds=LOAD_SECONDS).under_load(label).free()
    if label == "load":
        for place, wait in (("shm", "spin"), ("loopback", "helper")):
            yield Eventfd(bin_folder, where[place], wait, seconds=1.5).under_load(label).free()
        for program in ("ib_write_lat", "ib_send_lat"):
            yield LossyLatency(bin_folder, where["loopback"], program).under_load(label).free()
        lossless = LossyLatency(bin_folder, where["loopback"], "ib_write_lat", "loss=0%")
        yield lossless.under_load(label).free()


def groups(bin_folder, where):
    """(name, spinning processes, contestants)"""
    cores = load.cores()
    return [("quiet", 0, list(asleep(bin_folder, where))),
            ("load", cores, list(loaded(bin_folder, where, "load"))),
            ("load2", 2 * cores, list(loaded(bin_folder, where, "load2"))),
            ("programs", 0, list(programs(bin_folder, where)))]


class Progress:
    """One line that moves on a terminal; elsewhere a line for each group."""

    def __init__(self):
        self.begun, self.moves = time.monotonic(), sys.stdout.isatty()

    def seconds(self):
        return time.monotonic() - self.begun

    def at(self, number, group, done, total, name):
        if self.moves or done == 0:
            line = f"  round {number}, {group} {done}/{total}, {self.seconds():.0f} s"
            print(f"\r{line} {name:<32}" if self.moves else line, end="" if self.moves else "\n",
                  flush=True)

    def end(self):
        print(("\r" + " " * 78 + "\r") * self.moves + f"  {self.seconds():.0f} s", flush=True)


def play(player, number, result):
    """One turn. A contestant that fails is noted, and does not stop the others."""
    try:
        samples, _ = player.run()
    except (commands.Failed, OSError, ValueError) as failure:
        noted = result["failures"].setdefault(player.title, {"times": 0})
        noted["times"] += 1
        noted["reason"] = str(failure).splitlines()[-1] if str(failure) else repr(failure)
        return
    result["samples"] += [sample | {"round": number} for sample in samples]


def tournament(all_groups, result, *, rounds, seconds):
    """Begins nothing after so many seconds: the last round may be a part of one."""
    progress = Progress()
    for number in range(1, rounds + 1):
        for name, count, everybody in all_groups:
            present = [player for player in everybody if not player.lacks]
            random.Random(number).shuffle(present)
            with load.spinners(count, commands.started):
                for done, player in enumerate(present):
                    if progress.seconds() > seconds:
                        progress.end()
                        return
                    progress.at(number, name, done, len(present), player.title)
                    play(player, number, result)
        result["rounds"] = number
    progress.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path, help="folder of weft and of the echo programs")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=160, help="begin nothing after this time")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--groups", nargs="+", choices=("quiet", "programs", "load", "load2"),
                        help="these alone")
    parser.add_argument("--only", nargs="+", metavar="NAME",
                        help="contestants whose name begins so, such as tcp verbs_epoll")
    args = parser.parse_args()

    result = {"samples": [], "failures": {}, "rounds": 0}
    bin_folder = args.bin.resolve()
    with places.all_places(bin_folder) as (where, missing):
        names = sorted({c.name for _, _, everybody in groups(bin_folder, where) for c in everybody})
        for beginning in args.only or []:
            if not any(name.startswith(beginning) for name in names):
                parser.error(f"--only: '{beginning}' begins none of {', '.join(names)}")
        chosen = [(name, count, [c for c in everybody if not args.only
                                 or c.name.startswith(tuple(args.only))])
                  for name, count, everybody in groups(bin_folder, where)
                  if not args.groups or name in args.groups]
        result["missing"] = missing | {c.name: c.lacks for _, _, everybody in chosen
                                       for c in everybody if c.lacks}
        tournament(chosen, result, rounds=args.rounds, seconds=args.seconds)
    args.out.write_text(json.dumps(result, indent=1) + "\n")


main()
