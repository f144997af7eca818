"""Checks the ICRC of every RoCEv2 frame in a capture. Written from the specification, with zlib's
CRC, and shares no code with weft.

    icrc.py FILE.pcap"""

import struct
import sys
import zlib

ROCE_PORT = 4791
ETHERNET, RAW_IP = 1, 101
IPV4, IPV6 = 0x0800, 0x86DD
UDP = 17
ICRC_BYTES = 4


def frames(path):
    """The IP packets of a capture (pcap, Ethernet or raw IP)."""
    with open(path, "rb") as file:
        head = file.read(24)
        order = "<" if head[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        link = struct.unpack(order + "I", head[20:])[0] & 0xFFFF
        if link not in (ETHERNET, RAW_IP):
            raise SystemExit(f"{path}: link type {link} is neither Ethernet nor raw IP")
        while len(head := file.read(16)) == 16:
            size = struct.unpack(order + "IIII", head)[2]
            data = file.read(size)
            if link == RAW_IP:
                yield data
            elif len(data) > 14 and struct.unpack(">H", data[12:14])[0] in (IPV4, IPV6):
                yield data[14:]


def roce(packet):
    """(source address, IP header's length, the packet cut to its length), or nothing."""
    if packet[0] >> 4 == 4:
        header, total = (packet[0] & 15) * 4, struct.unpack(">H", packet[2:4])[0]
        protocol, source = packet[9], packet[12:16]
    else:
        header, total = 40, 40 + struct.unpack(">H", packet[4:6])[0]
        protocol, source = packet[6], packet[8:24]
    packet = packet[:total]
    if protocol != UDP or len(packet) < header + 8 + 12 + ICRC_BYTES:
        return None
    if struct.unpack(">H", packet[header + 2:header + 4])[0] != ROCE_PORT:
        return None
    return source, header, packet


def is_right(packet, header):
    """Whether the last four bytes are the ICRC of the rest."""
    masked = bytearray(packet[:-ICRC_BYTES])
    if header == 40:
        masked[0] |= 0x0F
        masked[1] = masked[2] = masked[3] = masked[7] = 0xFF
    else:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    masked[header + 6] = masked[header + 7] = 0xFF  # the UDP checksum
    masked[header + 8 + 4] = 0xFF  # congestion bits of the BTH
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked)) == packet[-ICRC_BYTES:]


def check(path):
    """{source address in hexadecimal: [right, wrong]}"""
    counts = {}
    for frame in frames(path):
        found = roce(frame)
        if found:
            source, header, packet = found
            counts.setdefault(source.hex(), [0, 0])[0 if is_right(packet, header) else 1] += 1
    return counts


def main():
    counts = check(sys.argv[1])
    for source, (right, wrong) in sorted(counts.items()):
        print(f"{source}: {right} right, {wrong} wrong")
    return 1 if any(wrong for _, wrong in counts.values()) or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
