"""Runs weft as frames, plain UDP and the peers over the network in turn, and writes their samples as JSON for
scripts/collect_bench.py: on loopback, and, where namespaces may be made, between two of them that a veth pair
joins."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "same_host"))
import commands  # noqa: E402  pylint: disable=wrong-import-position
import contestants  # noqa: E402  pylint: disable=wrong-import-position
import tournament  # noqa: E402  pylint: disable=wrong-import-position

PARTS = ("raw_latency", "raw_frame_latency", "weft_latency", "raw_stream", "weft_stream",
         "weft_sends", "weft_rate")
# Raw queue pairs, and the packet sockets beside them, over a veth pair alone.
PACKET_PARTS = ("plain_packets", "weft_packets")
LOOPBACK = []
VETH = ["--veth"]


class Pair:
    """One part of the program network_pair, in one of the two places."""

    def __init__(self, bin_folder, part, place, arguments):
        self.name, self.lacks, self.place = f"{part} on {place}", None, place
        self.command = [bin_folder / "network_pair", part, *arguments]

    def run(self):
        out, reason = commands.output_of(self.command, partial=True)
        samples = contestants.samples_in(out)
        for sample in samples:
            sample["name"] += "" if self.place == "loopback" else f"_{self.place}"
        return samples, reason

    def canary(self):
        out = commands.output_of([self.command[0], "canary"])
        return float(out.split("\t")[1])


class UcxTcp(contestants.Ucx):
    ENV = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    LAPS = 3


class Rxd(contestants.OutsideTool):
    """fi_pingpong over libfabric's reliable datagrams on UDP."""

    def __init__(self, canary):
        super().__init__("libfabric_rxd", "fi_pingpong", "libfabric-bin", canary)

    def measure(self):
        base = ["fi_pingpong", "-p", "udp;ofi_rxd", "-e", "rdm", "-I", "3000", "-S", "64"]
        out = self.client_output(lambda port: [*base, "-B", str(port)],
                                 lambda port: [*base, "-P", str(port), "127.0.0.1"])
        return float(out.splitlines()[-1].split()[6])

    def run(self):
        return [self.between_canaries("latency", 64, "us", self.measure)], None


UCX_TESTS = [("latency", ["-t", "tag_lat"], 64, 3000, contestants.LATENCY),
             ("stream", ["-t", "tag_bw"], contestants.MIB, 300, contestants.BANDWIDTH)]


def veth_refusal(bin_folder):
    """Why network_pair cannot make two namespaces and a veth pair here; None: it can."""
    try:
        commands.output_of([bin_folder / "network_pair", "raw_latency", "--veth"])
    except commands.Failed as failure:
        return str(failure).splitlines()[-1]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path, help="folder of network_pair")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=90, help="begin no round after this time")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()

    everybody = [Pair(args.bin, part, "loopback", LOOPBACK) for part in PARTS]
    refusal = veth_refusal(args.bin)
    if not refusal:
        everybody += [Pair(args.bin, part, "veth", VETH) for part in (*PARTS, *PACKET_PARTS)]
    canary = everybody[0].canary
    everybody += [UcxTcp(canary, test) for test in UCX_TESTS] + [Rxd(canary)]
    tournament.run(everybody, args.out, rounds=args.rounds, seconds=args.seconds,
                   missing={"veth": refusal} if refusal else None)


main()
