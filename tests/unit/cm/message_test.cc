#include "cm/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/random.h"
#include "cm/service_id.h"
#include "support/capture_reader.h"

namespace weft::cm {
namespace {

// Between two Linux hosts (tests/data/README.md); the fields below are as tshark reads them.
constexpr std::size_t kBeforeMessage = 14 + 20 + 8 + 12 + 8, kIcrc = 4;
constexpr std::size_t kRequestFrame = 138, kReplyFrame = 139, kReadyFrame = 140,
                      kDisconnectFrame = 178, kDisconnectedFrame = 179;

std::vector<std::byte> recorded(std::size_t number) {
  static const auto frames = test::read_capture(WEFT_TEST_DATA "/rxe_ref_small.pcapng");
  const auto& frame = frames.at(number - 1);
  EXPECT_EQ(frame.size(), kBeforeMessage + kMessageBytes + kIcrc);
  return {frame.begin() + kBeforeMessage, frame.end() - kIcrc};
}

template <class Body>
Body body_of(const std::vector<std::byte>& bytes) {
  const auto message = parse(bytes);
  EXPECT_TRUE(message.has_value());
  return std::get<Body>(message->body);
}

std::vector<std::byte> emitted(const std::vector<std::byte>& bytes) {
  const auto again = emit(*parse(bytes));
  return {again.begin(), again.end()};
}

/// A message with the given bytes behind the header, the rest zero.
MessageBytes made(std::uint8_t attribute,
                  std::initializer_list<std::pair<std::size_t, std::uint8_t>> bytes) {
  MessageBytes message{};
  message[0] = std::byte{1};
  message[1] = std::byte{7};
  message[2] = std::byte{2};
  message[3] = std::byte{3};
  message[17] = std::byte{attribute};
  for (const auto& [at, value] : bytes) message[24 + at] = std::byte{value};
  return message;
}

TEST(CmMessage, reads_a_request_of_linux) {
  const auto bytes = recorded(kRequestFrame);
  EXPECT_EQ(parse(bytes)->transaction.value, 0x000000023FCA345EU);
  const auto request = body_of<Request>(bytes);
  EXPECT_EQ(request.local, CommId(0x5E34CA3F));
  EXPECT_EQ(request.service, service_id(kTcpSpace, Port(0x1C06)));
  EXPECT_EQ(request.ca_guid, 0x505400FFFE007703U);
  EXPECT_EQ(request.qpn, Qpn(0x14));
  EXPECT_EQ(request.responder_resources, 1);
  EXPECT_EQ(request.initiator_depth, 1);
  EXPECT_EQ(request.remote_response_timeout, 0x14);
  EXPECT_EQ(request.local_response_timeout, 0x14);
  EXPECT_EQ(request.transport, Transport::kReliable);
  EXPECT_FALSE(request.flow_control);
  EXPECT_EQ(request.starting_psn, Psn(0x9A102D));
  EXPECT_EQ(request.retry_count, 7);
  EXPECT_EQ(request.rnr_retry_count, 7);
  EXPECT_EQ(request.pkey, kDefaultPKey);
  EXPECT_EQ(request.mtu_code, 3);
  EXPECT_EQ(request.max_cm_retries, 15);
  EXPECT_FALSE(request.srq);
  EXPECT_EQ(request.primary.local_lid, Lid(65535));
  EXPECT_EQ(request.primary.local_gid, Gid::ipv4(192, 168, 77, 3));
  EXPECT_EQ(request.primary.remote_gid, Gid::ipv4(192, 168, 77, 2));
  // tshark 4.0 reads this word one byte too early; the bytes are b5 03 f0 00.
  EXPECT_EQ(request.primary.flow_label, 0xB503FU);
  EXPECT_EQ(request.primary.rate, 0);
  EXPECT_EQ(request.primary.hop_limit, 64);
  EXPECT_EQ(request.primary.ack_timeout, 0x13);
  EXPECT_EQ(request.alternate, Path{});
  const auto header = parse_ip_header(request.private_data);
  ASSERT_TRUE(header);
  EXPECT_EQ(*header, (IpHeader{false, Port(0xE0A7), Gid::ipv4(192, 168, 77, 3),
                               Gid::ipv4(192, 168, 77, 2)}));
}

TEST(CmMessage, reads_the_other_messages_of_linux) {
  const auto reply = body_of<Reply>(recorded(kReplyFrame));
  EXPECT_EQ(reply.local, CommId(0xA8943F8D));
  EXPECT_EQ(reply.remote, CommId(0x5E34CA3F));
  EXPECT_EQ(reply.qpn, Qpn(0x14));
  EXPECT_EQ(reply.starting_psn, Psn(0x22B777));
  EXPECT_EQ(reply.responder_resources, 1);
  EXPECT_EQ(reply.initiator_depth, 1);
  EXPECT_EQ(reply.target_ack_delay, 15);
  EXPECT_EQ(reply.rnr_retry_count, 7);
  EXPECT_EQ(reply.ca_guid, 0x505400FFFE007702U);
  const auto ready = body_of<ReadyToUse>(recorded(kReadyFrame));
  EXPECT_EQ(ready.local, CommId(0x5E34CA3F));
  EXPECT_EQ(ready.remote, CommId(0xA8943F8D));
  const auto disconnect = body_of<DisconnectRequest>(recorded(kDisconnectFrame));
  EXPECT_EQ(disconnect.local, CommId(0x5E34CA3F));
  EXPECT_EQ(disconnect.remote_qpn, Qpn(0x14));
  const auto disconnected = body_of<DisconnectReply>(recorded(kDisconnectedFrame));
  EXPECT_EQ(disconnected.local, CommId(0xA8943F8D));
}

TEST(CmMessage, writes_what_linux_writes) {
  for (const auto number :
       {kRequestFrame, kReplyFrame, kReadyFrame, kDisconnectFrame, kDisconnectedFrame}) {
    const auto bytes = recorded(number);
    EXPECT_EQ(emitted(bytes), bytes) << "frame " << number;
  }
}

TEST(CmMessage, fields_lie_where_the_specification_puts_them) {
  Acknowledgement patience{CommId(0x01020304), CommId(0x05060708), About::kReply, 0x15, {}};
  patience.private_data[0] = std::byte{0xAA};
  EXPECT_EQ(emit({{}, patience}), made(0x11, {{0, 1},
                                              {1, 2},
                                              {2, 3},
                                              {3, 4},
                                              {4, 5},
                                              {5, 6},
                                              {6, 7},
                                              {7, 8},
                                              {8, 0x40},
                                              {9, 0x15 << 3},
                                              {10, 0xAA}}));
  Reject reject;
  reject.local = CommId(1), reject.remote = CommId(2);
  reject.about = About::kOther;
  reject.reason = RejectReason::kStaleConnection;
  reject.info_bytes = 3;
  reject.info[0] = std::byte{0xBB};
  reject.private_data[0] = std::byte{0xCC};
  EXPECT_EQ(emit({{}, reject}),
            made(0x12, {{3, 1}, {7, 2}, {8, 0x80}, {9, 3 << 1}, {11, 10}, {12, 0xBB}, {84, 0xCC}}));
  ServiceRequest question;
  question.request = CommId(7);
  question.pkey = PKey(0xFFFE);
  question.service = ServiceId(0x0102030405060708);
  question.private_data[0] = std::byte{0xDD};
  EXPECT_EQ(emit({{}, question}), made(0x17, {{3, 7},
                                              {4, 0xFF},
                                              {5, 0xFE},
                                              {8, 1},
                                              {9, 2},
                                              {10, 3},
                                              {11, 4},
                                              {12, 5},
                                              {13, 6},
                                              {14, 7},
                                              {15, 8},
                                              {16, 0xDD}}));
  ServiceReply answer;
  answer.request = CommId(7);
  answer.status = ServiceStatus::kNoQueuePair;
  answer.info_bytes = 2;
  answer.qpn = Qpn(0x0A0B0C);
  answer.service = ServiceId(9);
  answer.qkey = QKey(0x11121314);
  answer.info[0] = std::byte{0xEE};
  answer.vendor.vendor = 0x212223;
  answer.private_data[0] = std::byte{0xFF};
  EXPECT_EQ(emit({{}, answer}), made(0x18, {{3, 7},
                                            {4, 3},
                                            {5, 2},
                                            {6, 0x21},
                                            {7, 0x22},
                                            {8, 0x0A},
                                            {9, 0x0B},
                                            {10, 0x0C},
                                            {11, 0x23},
                                            {19, 9},
                                            {20, 0x11},
                                            {21, 0x12},
                                            {22, 0x13},
                                            {23, 0x14},
                                            {24, 0xEE},
                                            {96, 0xFF}}));
}

TEST(CmMessage, vendor_options_of_request_and_reply_are_carried) {
  Request request;
  request.vendor = {0xABCDEF, 0x12345678};
  EXPECT_EQ(std::get<Request>(parse(emit({{}, request}))->body).vendor, request.vendor);
  Reply reply;
  reply.vendor = {0xABCDEF, 0x12345678};
  EXPECT_EQ(std::get<Reply>(parse(emit({{}, reply}))->body).vendor, reply.vendor);
}

TEST(CmMessage, whatever_is_read_is_written_the_same) {
  base::SeededRandom random(7);
  std::array<int, std::variant_size_v<decltype(Message::body)>> read{};
  for (int i = 0; i < 20'000; ++i) {
    MessageBytes bytes = made(static_cast<std::uint8_t>(0x10 + random.below(9)), {});
    random.fill(std::span(bytes).subspan(24));
    random.fill(std::span(bytes).subspan(8, 8));
    random.fill(std::span(bytes).subspan(20, 4));
    const auto message = parse(bytes);
    if (!message) continue;
    ++read[message->body.index()];
    const auto again = parse(emit(*message));
    ASSERT_TRUE(again);
    ASSERT_EQ(*again, *message);
  }
  for (const int count : read) EXPECT_GT(count, 100);
}

TEST(CmMessage, refuses_what_is_no_message_of_this_class) {
  const auto whole = recorded(kRequestFrame);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse(std::span(whole).first(size))) << size;
  }
  auto longer = whole;
  longer.push_back({});
  EXPECT_FALSE(parse(longer));
  // Version, class, class version, method, attribute.
  for (const std::size_t at : {0, 1, 2, 3, 16}) {
    auto bytes = whole;
    bytes[at] ^= std::byte{0x80};
    EXPECT_FALSE(parse(bytes)) << at;
  }
  EXPECT_FALSE(parse(made(0x0F, {})));
  EXPECT_FALSE(parse(made(0x19, {})));
}

TEST(CmMessage, refuses_values_that_do_not_exist) {
  EXPECT_FALSE(parse(made(0x10, {{43, 2 << 1}})));  // reliable datagrams
  EXPECT_FALSE(parse(made(0x10, {{43, 3 << 1}})));  // extended, but it does not say which
  EXPECT_TRUE(parse(made(0x10, {{43, 3 << 1}, {51, 1}})));
  EXPECT_FALSE(parse(made(0x11, {{8, 0xC0}})));     // about what?
  EXPECT_FALSE(parse(made(0x12, {{9, 73 << 1}})));  // more than there is room for
  EXPECT_FALSE(parse(made(0x18, {{5, 73}})));
}

TEST(IpHeader, is_read_as_it_is_written) {
  Gid v6;
  for (std::size_t i = 0; i < 16; ++i) v6.raw[i] = static_cast<std::uint8_t>(i + 1);
  std::array<std::byte, kIpHeaderBytes> bytes{};
  const IpHeader six{true, Port(0x1234), v6, Gid{}};
  emit_ip_header(six, bytes);
  EXPECT_EQ(parse_ip_header(bytes), six);
  const IpHeader four{false, Port(1), Gid::ipv4(1, 2, 3, 4), Gid::ipv4(5, 6, 7, 8)};
  emit_ip_header(four, bytes);
  EXPECT_EQ(parse_ip_header(bytes), four);
  EXPECT_EQ(bytes[15], std::byte{0});  // IPv4 stands alone at the end of its field
  EXPECT_EQ(bytes[16], std::byte{1});
  EXPECT_FALSE(parse_ip_header(std::span(bytes).first(kIpHeaderBytes - 1)));
  bytes[1] = std::byte{0x50};
  EXPECT_FALSE(parse_ip_header(bytes));
  bytes[1] = std::byte{0x40}, bytes[0] = std::byte{1};
  EXPECT_FALSE(parse_ip_header(bytes));
}

}  // namespace
}  // namespace weft::cm
