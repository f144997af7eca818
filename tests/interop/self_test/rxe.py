"""The judges of the frames between weft and rxe have to see what is wrong."""

import pathlib
import sys
import tempfile
import unittest

INTEROP = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(INTEROP / "rxe"), str(INTEROP)]

import guest_image  # noqa: E402
import icrc  # noqa: E402
import run  # noqa: E402
import sides  # noqa: E402

CAPTURE = INTEROP.parent / "data" / "every_opcode.pcap"
TABLE = """  sl  local_address rem_address   st
   0: 0200630A:7531 00000000:0000 0A 00000000:00000000
   1: 0200630A:7532 0100630A:C0DE 01 00000000:00000000"""


class IcrcTest(unittest.TestCase):
    def test_frames_made_by_others_are_right(self):
        counts = icrc.check(CAPTURE)
        self.assertEqual(sum(right for right, _ in counts.values()), 101)
        self.assertEqual(sum(wrong for _, wrong in counts.values()), 0)

    def test_one_changed_bit_makes_one_frame_wrong(self):
        data = bytearray(CAPTURE.read_bytes())
        data[-3] ^= 0x10
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(data)
            file.flush()
            counts = icrc.check(file.name)
        self.assertEqual(sum(wrong for _, wrong in counts.values()), 1)


class MalformedTest(unittest.TestCase):
    def test_a_guess_at_the_payload_is_not_the_frame(self):
        own = "7\teth:ethertype:ip:udp:infiniband"
        guess = "8\teth:ethertype:ip:udp:infiniband:ethertype:vlan:llc"
        self.assertEqual(run.malformed_frames([own, guess]), [own])


class SidesTest(unittest.TestCase):
    def test_only_a_listening_socket_listens(self):
        self.assertTrue(sides.listens_in(TABLE, 0x7531))
        self.assertFalse(sides.listens_in(TABLE, 0x7532))
        self.assertFalse(sides.listens_in(TABLE, 0x753))

    def test_gids_are_written_as_sysfs_does(self):
        self.assertEqual(sides.sysfs_form("IPv4"), "0000:0000:0000:0000:0000:ffff:0a63:0002")


class ImageTest(unittest.TestCase):
    def test_an_archive_has_each_folder_and_file_once(self):
        archive = guest_image.Archive()
        archive.file("/a/b/c", b"12345")
        archive.file("a/b/c", b"again")
        self.assertEqual(archive.data.count(b"070701"), 3)
        self.assertIn(b"12345", archive.data)
        self.assertEqual(len(archive.data) % 4, 0)

    def test_a_module_comes_after_what_it_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, needs in (("rdma_rxe", b"ib_core,udp_tunnel"), ("ib_core", b""),
                                ("udp_tunnel", b"")):
                (root / f"{name}.ko").write_bytes(b"\0depends=" + needs + b"\0")
            names = [path.stem for path in guest_image.in_order(root)]
        self.assertEqual(names, ["ib_core", "udp_tunnel", "rdma_rxe"])
