#include "cm/message.h"

#include <cstring>
#include <utility>

#include "cm/message_fields.h"

// Layouts: InfiniBand architecture specification, volume 1, chapter 12. Offsets count from byte 24.
namespace weft::cm {
namespace {

enum class Attribute : std::uint16_t {
  kRequest = 0x10,
  kAcknowledgement = 0x11,
  kReject = 0x12,
  kReply = 0x13,
  kReadyToUse = 0x14,
  kDisconnectRequest = 0x15,
  kDisconnectReply = 0x16,
  kServiceRequest = 0x17,
  kServiceReply = 0x18,
};

constexpr std::uint8_t kClassVersion = 2;

// One list of fields for each kind, walked by a reader and by a writer (message_fields.h): what is
// read and what is written cannot differ.

template <class Walk>
void walk(Walk& w, Path& path, std::size_t at) {
  w.u16(at, path.local_lid.value);
  w.u16(at + 2, path.remote_lid.value);
  w.bytes(at + 4, path.local_gid.raw);
  w.bytes(at + 20, path.remote_gid.raw);
  w.bits(at + 36, 0, 20, path.flow_label);
  w.bits(at + 36, 26, 6, path.rate);
  w.bits(at + 40, 0, 8, path.traffic_class);
  w.bits(at + 40, 8, 8, path.hop_limit);
  w.bits(at + 40, 16, 4, path.service_level);
  w.flag(at + 40, 20, path.subnet_local);
  w.bits(at + 40, 24, 5, path.ack_timeout);
}

/// Transport type 3 alone means nothing: the extended type 1 beside it does.
template <class Walk>
void walk(Walk& w, Transport& transport) {
  auto type = static_cast<std::uint8_t>(
      transport == Transport::kExtended ? 3 : static_cast<std::uint8_t>(transport));
  std::uint8_t extended = transport == Transport::kExtended ? 1 : 0;
  w.bits(40, 29, 2, type);
  w.bits(48, 29, 3, extended);
  if (type == 0) {
    transport = Transport::kReliable;
  } else if (type == 1) {
    transport = Transport::kUnreliable;
  } else if (type == 3 && extended == 1) {
    transport = Transport::kExtended;
  } else {
    w.fail();
  }
}

template <class Walk>
void walk(Walk& w, Request& m) {
  w.u32(0, m.local.value);
  w.bits(4, 8, 24, m.vendor.vendor);
  w.u64(8, m.service.value);
  w.u64(16, m.ca_guid);
  w.u32(28, m.qkey.value);
  w.bits(32, 0, 24, m.qpn.value);
  w.bits(32, 24, 8, m.responder_resources);
  w.bits(36, 0, 24, m.local_eec.value);
  w.bits(36, 24, 8, m.initiator_depth);
  w.bits(40, 0, 24, m.remote_eec.value);
  w.bits(40, 24, 5, m.remote_response_timeout);
  w.flag(40, 31, m.flow_control);
  w.psn(44, m.starting_psn);
  w.bits(44, 24, 5, m.local_response_timeout);
  w.bits(44, 29, 3, m.retry_count);
  w.u16(48, m.pkey.value);
  w.bits(48, 16, 4, m.mtu_code);
  w.flag(48, 20, m.rdc_exists);
  w.bits(48, 21, 3, m.rnr_retry_count);
  w.bits(48, 24, 4, m.max_cm_retries);
  w.flag(48, 28, m.srq);
  walk(w, m.transport);
  walk(w, m.primary, 52);
  walk(w, m.alternate, 96);
  w.bytes(140, m.private_data);
}

template <class Walk>
void walk_about(Walk& w, About& about) {
  auto value = static_cast<std::uint8_t>(about);
  w.bits(8, 0, 2, value);
  if (value > static_cast<std::uint8_t>(About::kOther)) return w.fail();
  about = static_cast<About>(value);
}

template <class Walk, class M>
void walk_ids(Walk& w, M& m) {
  w.u32(0, m.local.value);
  w.u32(4, m.remote.value);
}

template <class Walk>
void walk(Walk& w, Acknowledgement& m) {
  walk_ids(w, m);
  walk_about(w, m.about);
  w.bits(8, 8, 5, m.service_timeout);
  w.bytes(10, m.private_data);
}

template <class Walk>
void walk(Walk& w, Reject& m) {
  walk_ids(w, m);
  walk_about(w, m.about);
  w.bits(8, 8, 7, m.info_bytes);
  if (m.info_bytes > m.info.size()) return w.fail();
  auto reason = static_cast<std::uint16_t>(m.reason);
  w.u16(10, reason);
  m.reason = static_cast<RejectReason>(reason);
  w.bytes(12, m.info);
  w.bytes(84, m.private_data);
}

template <class Walk>
void walk(Walk& w, Reply& m) {
  walk_ids(w, m);
  w.u32(8, m.qkey.value);
  w.bits(12, 0, 24, m.qpn.value);
  w.bits(16, 0, 24, m.eec.value);
  w.psn(20, m.starting_psn);
  // The vendor's number fills the gaps behind these three.
  auto high = static_cast<std::uint8_t>(m.vendor.vendor >> 16);
  auto middle = static_cast<std::uint8_t>(m.vendor.vendor >> 8);
  auto low = static_cast<std::uint8_t>(m.vendor.vendor);
  w.bits(12, 24, 8, high);
  w.bits(16, 24, 8, middle);
  w.bits(20, 24, 8, low);
  m.vendor.vendor = std::uint32_t{high} << 16 | std::uint32_t{middle} << 8 | low;
  w.bits(24, 0, 8, m.responder_resources);
  w.bits(24, 8, 8, m.initiator_depth);
  w.bits(24, 16, 5, m.target_ack_delay);
  w.bits(24, 21, 2, m.failover_accepted);
  w.flag(24, 23, m.flow_control);
  w.bits(24, 24, 3, m.rnr_retry_count);
  w.flag(24, 27, m.srq);
  w.u64(28, m.ca_guid);
  w.bytes(36, m.private_data);
}

template <class Walk>
void walk(Walk& w, ReadyToUse& m) {
  walk_ids(w, m);
  w.bytes(8, m.private_data);
}

template <class Walk>
void walk(Walk& w, DisconnectRequest& m) {
  walk_ids(w, m);
  w.bits(8, 0, 24, m.remote_qpn.value);
  w.bytes(12, m.private_data);
}

template <class Walk>
void walk(Walk& w, DisconnectReply& m) {
  walk_ids(w, m);
  w.bytes(8, m.private_data);
}

template <class Walk>
void walk(Walk& w, ServiceRequest& m) {
  w.u32(0, m.request.value);
  w.u16(4, m.pkey.value);
  w.u64(8, m.service.value);
  w.bytes(16, m.private_data);
}

template <class Walk>
void walk(Walk& w, ServiceReply& m) {
  w.u32(0, m.request.value);
  auto status = static_cast<std::uint8_t>(m.status);
  w.bits(4, 0, 8, status);
  m.status = static_cast<ServiceStatus>(status);
  w.bits(4, 8, 8, m.info_bytes);
  if (m.info_bytes > m.info.size()) return w.fail();
  auto high = static_cast<std::uint16_t>(m.vendor.vendor >> 8);
  auto low = static_cast<std::uint8_t>(m.vendor.vendor);
  w.u16(6, high);
  w.bits(8, 24, 8, low);
  m.vendor.vendor = (std::uint32_t{high} << 8 | low) & kMask24;
  w.bits(8, 0, 24, m.qpn.value);
  w.u64(12, m.service.value);
  w.u32(20, m.qkey.value);
  w.bytes(24, m.info);
  w.bytes(96, m.private_data);
}

struct Kind {
  Attribute attribute;
  decltype(Message::body) (*blank)();
};

template <class Body>
constexpr Kind kind(Attribute attribute) {
  return {attribute, [] { return decltype(Message::body)(Body{}); }};
}

// In the order of the variant.
constexpr Kind kKinds[] = {
    kind<Request>(Attribute::kRequest),
    kind<Acknowledgement>(Attribute::kAcknowledgement),
    kind<Reject>(Attribute::kReject),
    kind<Reply>(Attribute::kReply),
    kind<ReadyToUse>(Attribute::kReadyToUse),
    kind<DisconnectRequest>(Attribute::kDisconnectRequest),
    kind<DisconnectReply>(Attribute::kDisconnectReply),
    kind<ServiceRequest>(Attribute::kServiceRequest),
    kind<ServiceReply>(Attribute::kServiceReply),
};
static_assert(std::size(kKinds) == std::variant_size_v<decltype(Message::body)>);

/// The vendor's options travel in the header, as the attribute's modifier.
std::uint32_t* modifier_of(Message& message) {
  if (auto* request = std::get_if<Request>(&message.body)) return &request->vendor.options;
  if (auto* reply = std::get_if<Reply>(&message.body)) return &reply->vendor.options;
  if (auto* reply = std::get_if<ServiceReply>(&message.body)) return &reply->vendor.options;
  return nullptr;
}

}  // namespace

std::optional<Message> parse(std::span<const std::byte> bytes) {
  if (bytes.size() != kMessageBytes) return {};
  const auto header = mad::Header::parse(bytes);
  if (!header || header->management_class != mad::Class::kCommunication ||
      header->class_version != kClassVersion || header->method != mad::Method::kSend) {
    return {};
  }
  for (const Kind& each : kKinds) {
    if (static_cast<std::uint16_t>(each.attribute) != header->attribute) continue;
    Message message{header->transaction, each.blank()};
    FieldReader reader(bytes.subspan(mad::Header::kSize));
    std::visit([&](auto& body) { walk(reader, body); }, message.body);
    if (reader.failed()) return {};
    if (auto* modifier = modifier_of(message)) *modifier = header->modifier;
    return message;
  }
  return {};
}

MessageBytes emit(const Message& message) {
  MessageBytes bytes{};
  mad::Header header{
      .management_class = mad::Class::kCommunication,
      .class_version = kClassVersion,
      .transaction = message.transaction,
      .attribute = static_cast<std::uint16_t>(kKinds[message.body.index()].attribute)};
  FieldWriter writer(std::span<std::byte>(bytes).subspan(mad::Header::kSize));
  Message copy = message;  // the walkers take what they can also change
  std::visit([&](auto& body) { walk(writer, body); }, copy.body);
  if (const auto* modifier = modifier_of(copy)) header.modifier = *modifier;
  header.emit(std::span(bytes).first<mad::Header::kSize>());
  return bytes;
}

}  // namespace weft::cm
