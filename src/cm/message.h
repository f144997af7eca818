// The messages of InfiniBand's communication manager: management datagrams of 256 bytes, class 7.
// Each kind is a plain value here; parse() makes one of what arrived, and nothing of it is believed
// before that, emit() writes one. Stateless, any thread.
//
//   0: the header (mad/header.h) | 24: the kind's own fields; then private data to the end, always
//   of the same length
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "mad/header.h"
#include "weft/types.h"

namespace weft::cm {

inline constexpr std::size_t kMessageBytes = mad::kBytes;

/// Names one end of a connection, chosen by that end; 0 is none.
using CommId = Strong<struct CommIdTag, std::uint32_t>;
/// What a listener offers; service_id.h makes it of port space and port.
using ServiceId = Strong<struct ServiceIdTag, std::uint64_t>;
using mad::TransactionId;

enum class Transport : std::uint8_t { kReliable, kUnreliable, kExtended };

/// Which message another one is about.
enum class About : std::uint8_t { kRequest = 0, kReply = 1, kOther = 2 };

enum class RejectReason : std::uint16_t {
  kNoQueuePair = 1,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kInvalidTransport = 9,
  kStaleConnection = 10,
  kInvalidPathMtu = 26,
  kDuplicateLocalCommId = 30,
  kConsumer = 28,
  kVendorOption = 35,
};

/// Options that both ends' devices may agree on; carried, never read.
struct VendorOptions {
  std::uint32_t vendor = 0;  ///< 24 bits
  std::uint32_t options = 0;
  friend bool operator==(const VendorOptions&, const VendorOptions&) = default;
};

template <std::size_t kBytes>
using PrivateData = std::array<std::byte, kBytes>;

struct Path {
  Lid local_lid, remote_lid;
  Gid local_gid, remote_gid;
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint8_t rate = 0;         ///< 6 bits
  std::uint8_t traffic_class = 0, hop_limit = 0;
  std::uint8_t service_level = 0;  ///< 4 bits
  bool subnet_local = false;
  std::uint8_t ack_timeout = 0;  ///< 5 bits: 4.096 us << n
  friend bool operator==(const Path&, const Path&) = default;
};

/// REQ: will you connect?
struct Request {
  CommId local;
  ServiceId service;
  std::uint64_t ca_guid = 0;
  QKey qkey;
  Qpn qpn;
  EecNumber local_eec, remote_eec;
  Psn starting_psn;  ///< which whoever gets this is to begin with
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t remote_response_timeout = 0, local_response_timeout = 0;  ///< 5 bits each
  Transport transport = Transport::kReliable;
  bool flow_control = false;
  std::uint8_t retry_count = 0, rnr_retry_count = 0;  ///< 3 bits each
  PKey pkey;
  std::uint8_t mtu_code = 0;  ///< 1: 256 bytes to 5: 4096
  bool rdc_exists = false;
  std::uint8_t max_cm_retries = 0;  ///< 4 bits
  bool srq = false;
  Path primary, alternate;
  VendorOptions vendor;
  PrivateData<92> private_data{};
  friend bool operator==(const Request&, const Request&) = default;
};

/// MRA: got it, the answer takes a while.
struct Acknowledgement {
  CommId local, remote;
  About about = About::kRequest;
  std::uint8_t service_timeout = 0;  ///< 5 bits
  PrivateData<222> private_data{};
  friend bool operator==(const Acknowledgement&, const Acknowledgement&) = default;
};

/// REJ: no.
struct Reject {
  CommId local, remote;
  About about = About::kRequest;
  RejectReason reason = RejectReason::kConsumer;  ///< any number may arrive
  std::uint8_t info_bytes = 0;                    ///< 7 bits; of `info`, at most all
  std::array<std::byte, 72> info{};
  PrivateData<148> private_data{};
  friend bool operator==(const Reject&, const Reject&) = default;
};

/// REP: yes.
struct Reply {
  CommId local, remote;
  QKey qkey;
  Qpn qpn;
  EecNumber eec;
  Psn starting_psn;  ///< which whoever gets this is to begin with
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;   ///< 5 bits
  std::uint8_t failover_accepted = 0;  ///< 2 bits
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  bool srq = false;
  std::uint64_t ca_guid = 0;
  VendorOptions vendor;
  PrivateData<196> private_data{};
  friend bool operator==(const Reply&, const Reply&) = default;
};

/// RTU: then let us go.
struct ReadyToUse {
  CommId local, remote;
  PrivateData<224> private_data{};
  friend bool operator==(const ReadyToUse&, const ReadyToUse&) = default;
};

/// DREQ: the connection ends.
struct DisconnectRequest {
  CommId local, remote;
  Qpn remote_qpn;
  PrivateData<220> private_data{};
  friend bool operator==(const DisconnectRequest&, const DisconnectRequest&) = default;
};

/// DREP: it has ended here too.
struct DisconnectReply {
  CommId local, remote;
  PrivateData<224> private_data{};
  friend bool operator==(const DisconnectReply&, const DisconnectReply&) = default;
};

/// SIDR_REQ: which datagram queue pair gives this service?
struct ServiceRequest {
  CommId request;
  PKey pkey;
  ServiceId service;
  PrivateData<216> private_data{};
  friend bool operator==(const ServiceRequest&, const ServiceRequest&) = default;
};

enum class ServiceStatus : std::uint8_t {
  kSuccess = 0,
  kUnsupported = 1,
  kReject = 2,
  kNoQueuePair = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};

/// SIDR_REP: this one, or none.
struct ServiceReply {
  CommId request;
  ServiceStatus status = ServiceStatus::kSuccess;  ///< any number may arrive
  std::uint8_t info_bytes = 0;                     ///< of `info`, at most all
  Qpn qpn;
  ServiceId service;
  QKey qkey;
  std::array<std::byte, 72> info{};
  VendorOptions vendor;
  PrivateData<136> private_data{};
  friend bool operator==(const ServiceReply&, const ServiceReply&) = default;
};

struct Message {
  TransactionId transaction;
  std::variant<Request, Acknowledgement, Reject, Reply, ReadyToUse, DisconnectRequest,
               DisconnectReply, ServiceRequest, ServiceReply>
      body;
  friend bool operator==(const Message&, const Message&) = default;
};

using MessageBytes = mad::Bytes;

/// Nothing when it is not a message of this class with a kind and values that exist.
std::optional<Message> parse(std::span<const std::byte> bytes);

/// Fields that are wider here than on the wire are cut to their bits.
MessageBytes emit(const Message& message);

}  // namespace weft::cm
