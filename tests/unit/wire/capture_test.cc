// The captures as outside witnesses: every RoCE packet is read as tshark (or the script that made
// it) says, goes out again as it came in, carries the ICRC that weft computes, and no part of it
// passes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/big_endian.h"
#include "wire/datagram.h"
#include "wire_test_support.h"

namespace weft::wire {
namespace {

using test::Bytes;
using Fields = std::map<std::string, std::optional<std::uint64_t>>;

std::vector<Fields> read_fields(const std::string& name) {
  std::ifstream file(test::data_file(name));
  std::vector<std::string> names;
  std::vector<Fields> rows;
  for (std::string line, cell; std::getline(file, line);) {
    std::istringstream cells(line);
    if (names.empty()) {
      while (cells >> cell) names.push_back(cell);
      continue;
    }
    Fields row;
    for (const std::string& column : names) {
      cells >> cell;
      row[column] = cell == "-" ? std::nullopt : std::optional(std::stoull(cell));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// What weft read, in the words of the field files.
Fields fields_of(const Packet& packet, const Datagram& datagram, std::size_t frame) {
  const OpcodeInfo& i = packet.info();
  auto when = [](bool present, std::uint64_t value) {
    return present ? std::optional(value) : std::nullopt;
  };
  const bool rdma = i.has_reth || i.has_atomic;
  return Fields{
      {"frame", frame},
      {"opcode", static_cast<std::uint8_t>(packet.bth.opcode)},
      {"solicited", packet.bth.solicited},
      {"mig_req", packet.bth.mig_req},
      {"pad", packet.bth.pad_count},
      {"version", packet.bth.transport_version},
      {"pkey", packet.bth.pkey.value},
      {"dest_qp", packet.bth.dest_qp.value},
      {"ack", packet.bth.ack_request},
      {"psn", packet.bth.psn.value()},
      {"address", when(rdma, i.has_reth ? packet.reth.address : packet.atomic.address)},
      {"rkey", when(rdma, i.has_reth ? packet.reth.key.value : packet.atomic.key.value)},
      {"length", when(i.has_reth, packet.reth.length)},
      {"syndrome", when(i.has_aeth, packet.aeth.syndrome)},
      {"msn", when(i.has_aeth, packet.aeth.msn)},
      {"swap_or_add", when(i.has_atomic, packet.atomic.swap_or_add)},
      {"compare", when(i.has_atomic, packet.atomic.compare)},
      {"original", when(i.has_atomic_ack, packet.atomic_ack.original)},
      {"immediate", when(i.has_immediate, packet.immediate)},
      {"invalidate", when(i.has_invalidate, packet.invalidate_key.value)},
      {"qkey", when(i.has_deth, packet.deth.qkey.value)},
      {"source_qp", when(i.has_deth, packet.deth.source_qp.value)},
      {"context", when(i.has_rdeth, packet.rdeth.context.value)},
      {"icrc", base::load_be<std::uint32_t>(datagram.icrc.data())},
  };
}

void expect_fields(const std::string& capture, const std::string& fields) {
  const auto datagrams = test::roce_datagrams(capture);
  const auto expected = read_fields(fields);
  ASSERT_EQ(datagrams.size(), expected.size());
  for (std::size_t n = 0; n < datagrams.size(); ++n) {
    const auto datagram = check_datagram(datagrams[n].bytes);
    ASSERT_TRUE(datagram.has_value()) << to_string(datagram.error());
    const auto packet = parse_packet(datagram->packet);
    ASSERT_TRUE(packet.has_value()) << to_string(packet.error());
    EXPECT_EQ(fields_of(*packet, *datagram, datagrams[n].frame), expected[n])
        << "frame " << datagrams[n].frame;
  }
}

TEST(Capture, reference_packets_are_read_as_tshark_reads_them) {
  expect_fields("rxe_ref_small.pcapng", "rxe_ref_small.tshark.txt");
}

TEST(Capture, packets_of_every_opcode_are_read_as_they_were_made) {
  expect_fields("every_opcode.pcap", "every_opcode.txt");
}

TEST(Capture, holds_what_the_other_tests_rely_on) {
  const auto reference = test::roce_datagrams("rxe_ref_small.pcapng");
  EXPECT_EQ(reference.size(), 215u);
  std::set<unsigned> opcodes, families;
  for (const auto& d : reference) opcodes.insert(std::to_integer<unsigned>(d.bytes.at(28)));
  EXPECT_EQ(opcodes.size(), 21u);
  for (const auto& d : test::roce_datagrams("every_opcode.pcap")) {
    const bool v4 = d.bytes.at(0) == std::byte{0x45};
    families.insert(v4 ? 4 : 6);
    opcodes.insert(std::to_integer<unsigned>(d.bytes.at(v4 ? 28 : 48)));
  }
  EXPECT_EQ(families, (std::set<unsigned>{4, 6}));
  EXPECT_EQ(opcodes.size(), test::every_opcode().size());
}

class EveryDatagram : public testing::TestWithParam<std::string> {
 protected:
  const std::vector<test::CapturedDatagram> datagrams_ = test::roce_datagrams(GetParam());
};

TEST_P(EveryDatagram, is_emitted_again_byte_for_byte) {
  for (const auto& [frame, in] : datagrams_) {
    const auto datagram = check_datagram(in);
    ASSERT_TRUE(datagram.has_value()) << frame << ": " << to_string(datagram.error());
    const auto packet = parse_packet(datagram->packet);
    ASSERT_TRUE(packet.has_value()) << frame << ": " << to_string(packet.error());

    Bytes out(in.size(), std::byte{0xEE});
    const std::size_t ip_size = datagram->ip_header.size();
    if (datagram->is_ipv4()) {
      const auto ip = Ipv4::parse(in);
      EXPECT_EQ(ip->compute_checksum(), ip->checksum) << frame;
      ip->emit(out);
    } else {
      Ipv6::parse(in)->emit(out);
    }
    Udp::parse(std::span(in).subspan(ip_size))->emit(std::span(out).subspan(ip_size));
    const std::size_t at = ip_size + Udp::kSize;
    const std::size_t size = emit_packet(*packet, std::span(out).subspan(at));
    auto rebuilt = std::span(out);
    const Icrc icrc = [&] {
      const auto udp = rebuilt.subspan(ip_size).first<Udp::kSize>();
      return datagram->is_ipv4() ? Icrc::over_ipv4(rebuilt.first<Ipv4::kSize>(), udp)
                                 : Icrc::over_ipv6(rebuilt.first<Ipv6::kSize>(), udp);
    }();
    Icrc(icrc).add_first(rebuilt.subspan(at, size)).store(rebuilt.subspan(at + size).first<4>());
    EXPECT_EQ(out, in) << frame;
  }
}

TEST_P(EveryDatagram, icrc_is_confirmed_by_the_bitwise_reference) {
  for (const auto& [frame, in] : datagrams_) {
    const auto datagram = split_datagram(in);
    ASSERT_TRUE(datagram.has_value()) << frame;
    const std::uint32_t reference =
        test::reference_icrc(std::span(in).first(in.size() - kIcrcSize));
    EXPECT_EQ(compute_icrc(*datagram).value(), reference) << frame;
    EXPECT_TRUE(compute_icrc(*datagram).matches(datagram->icrc)) << frame;
  }
}

TEST_P(EveryDatagram, refuses_every_truncation) {
  for (const auto& [frame, in] : datagrams_) {
    for (std::size_t size = 0; size < in.size(); ++size) {
      const Bytes cut(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
      const auto datagram = check_datagram(cut);
      ASSERT_FALSE(datagram.has_value()) << frame << " at " << size;
      ASSERT_EQ(datagram.error(), ParseError::kTruncated) << frame << " at " << size;
    }
  }
}

/// A liar patches the length fields to fit: then the ICRC, which covers them, gives it away.
TEST_P(EveryDatagram, refuses_every_truncation_with_lengths_patched_to_fit) {
  for (const auto& [frame, in] : datagrams_) {
    const bool v4 = in[0] == std::byte{0x45};
    const std::size_t ip_size = v4 ? Ipv4::kSize : Ipv6::kSize;
    for (std::size_t size = ip_size + Udp::kSize; size < in.size(); ++size) {
      Bytes cut(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
      const auto udp_length = static_cast<std::uint16_t>(size - ip_size);
      base::store_be<std::uint16_t>(&cut[v4 ? 2 : 4],
                                    v4 ? static_cast<std::uint16_t>(size) : udp_length);
      base::store_be<std::uint16_t>(&cut[ip_size + 4], udp_length);
      const auto datagram = check_datagram(cut);
      ASSERT_FALSE(datagram.has_value()) << frame << " at " << size;
      ASSERT_EQ(datagram.error(), size < ip_size + Udp::kSize + Bth::kSize + kIcrcSize
                                      ? ParseError::kBadIpLength
                                      : ParseError::kBadIcrc);
    }
  }
}

/// The packet alone does not say how long its payload is, so a cut at a multiple of 4 inside the
/// payload can only shorten it; every other cut is refused before anything is read.
TEST_P(EveryDatagram, a_truncated_packet_is_refused_or_only_shorter) {
  for (const auto& [frame, in] : datagrams_) {
    const auto whole = split_datagram(in)->packet;
    const auto full = parse_packet(whole);
    ASSERT_TRUE(full.has_value()) << frame;
    const std::size_t headers = full->info().header_bytes;
    const std::size_t pad = full->bth.pad_count;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const auto packet = parse_packet(cut);
      const bool fits = size >= headers + pad && size % 4 == 0;
      const bool fixed = full->bth.opcode == Opcode::kCnp;
      ASSERT_EQ(packet.has_value(), fits && !fixed) << frame << " at " << size;
      if (packet) {
        ASSERT_EQ(packet->payload.size(), size - headers - pad);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Capture, EveryDatagram, testing::ValuesIn(test::capture_names()),
                         [](const auto& parameter) {
                           return parameter.param.substr(0, parameter.param.find('.'));
                         });

}  // namespace
}  // namespace weft::wire
