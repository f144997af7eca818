// Verbs in few words, for tests: nodes, memory with a pattern in it, requests with their lists, and
// what a completion should look like. What cannot be had throws, which fails the test. Any thread,
// for objects of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/verbs.h"

namespace weft {
// So that a failed expectation shows words.
inline void PrintTo(CompletionStatus status, std::ostream* out) { *out << to_string(status); }
inline void PrintTo(CompletionOp op, std::ostream* out) { *out << to_string(op); }
inline void PrintTo(QpState state, std::ostream* out) { *out << to_string(state); }
namespace verbs {
inline void PrintTo(AsyncEventKind kind, std::ostream* out) { *out << to_string(kind); }
}  // namespace verbs
}  // namespace weft

namespace weft::test {

using verbs::AsyncEvent;
using verbs::AsyncEventKind;
using verbs::CompletionQueue;
using verbs::Device;
using verbs::Endpoint;
using verbs::MemoryRegion;
using verbs::MemoryWindow;
using verbs::NodeKind;
using verbs::ProtectionDomain;
using verbs::QueuePair;
using verbs::QueuePairOptions;
using verbs::WindowType;

using Steady = std::chrono::steady_clock;
inline constexpr std::chrono::seconds kPatience{30};

/// The value, or an exception that fails the test with the error's own words.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// A device with a protection domain, and completion queues that tell sends from receives.
struct Node {
  explicit Node(Device opened)
      : device(std::move(opened)),
        pd(must(device.allocate_pd())),
        sends(must(device.create_cq(4096))),
        receives(must(device.create_cq(4096))) {}

  Device device;
  ProtectionDomain pd;
  CompletionQueue sends, receives;

  QueuePair create(const QueuePairOptions& options = {}) const {
    return must(pd.create_queue_pair(sends, receives, options));
  }
};

// ---- memory -----------------------------------------------------------------------------------

inline constexpr Access kEverything = Access::kLocalWrite | Access::kRemoteWrite |
                                      Access::kRemoteRead | Access::kRemoteAtomic |
                                      Access::kWindowBind;

/// The byte at `i` of a pattern that differs between seeds and does not repeat within a frame.
constexpr std::byte pattern(std::uint32_t seed, std::size_t i) {
  const std::uint32_t mixed = (static_cast<std::uint32_t>(i) + seed * 7919u + 1u) * 2654435761u;
  return static_cast<std::byte>(mixed >> 24);
}

/// Bytes and the region that registers them.
struct Memory {
  Memory(const Node& node, std::size_t size, Access access = kEverything)
      : bytes(size), region(must(node.pd.register_memory(bytes, access))) {}

  void fill(std::uint32_t seed) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(seed, i);
  }
  bool holds(std::uint32_t seed, std::size_t offset, std::size_t length,
             std::size_t from = 0) const {
    for (std::size_t i = 0; i < length; ++i) {
      if (bytes[offset + i] != pattern(seed, from + i)) return false;
    }
    return true;
  }
  bool holds(std::uint32_t seed) const { return holds(seed, 0, bytes.size()); }
  bool is_zero(std::size_t offset, std::size_t length) const {
    for (std::size_t i = 0; i < length; ++i) {
      if (bytes[offset + i] != std::byte{0}) return false;
    }
    return true;
  }
  bool is_zero() const { return is_zero(0, bytes.size()); }

  Sge sge() const { return region.sge(); }
  Sge sge(std::uint64_t offset, std::uint32_t length) const { return region.sge(offset, length); }
  RemoteAddress remote(std::uint64_t offset = 0) const { return region.remote(offset); }
  std::uint64_t& word(std::size_t offset) {
    return *reinterpret_cast<std::uint64_t*>(bytes.data() + offset);
  }

  std::vector<std::byte> bytes;
  MemoryRegion region;
};

// ---- work -------------------------------------------------------------------------------------

inline void post(QueuePair& qp, SendRequest request, std::initializer_list<Sge> sges = {}) {
  request.sges = {sges.begin(), sges.size()};
  must(qp.post_send(request));
}

inline void post_receive(QueuePair& qp, std::uint64_t wr_id, std::initializer_list<Sge> sges = {}) {
  must(qp.post_receive(ReceiveRequest{wr_id, {sges.begin(), sges.size()}}));
}

/// Connects by hand, with first sequence numbers of the test's choice.
inline void connect_at(QueuePair& qp, const Endpoint& peer, QueuePairAttributes attributes) {
  using A = QpAttribute;
  attributes.remote_gid = peer.gid;
  attributes.remote_qpn = peer.qpn;
  attributes.receive_psn = peer.psn;
  must(qp.modify(QpState::kInit, attributes, A::kPort | A::kPKeyIndex | A::kAccess));
  must(qp.modify(QpState::kReadyToReceive, attributes,
                 A::kAddress | A::kPathMtu | A::kRemoteQpn | A::kReceivePsn | A::kMaxDestRdAtomic |
                     A::kMinRnrTimer));
  must(qp.modify(QpState::kReadyToSend, attributes,
                 A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kSendPsn | A::kMaxRdAtomic));
}

/// A successful completion with exactly these marks?
inline testing::AssertionResult is_done(const Completion& got, std::uint64_t wr_id, CompletionOp op,
                                        std::uint64_t byte_count) {
  if (got.ok() && got.wr_id == wr_id && got.op == op && got.byte_count == byte_count) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << "completion " << got.wr_id << ": " << to_string(got.op) << ", " << got.byte_count
         << " bytes, " << to_string(got.status) << "; wanted " << wr_id << ": " << to_string(op)
         << ", " << byte_count << " bytes, success";
}

inline testing::AssertionResult has_failed(const Completion& got, std::uint64_t wr_id,
                                           CompletionStatus status) {
  if (got.wr_id == wr_id && got.status == status) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "completion " << got.wr_id << ": " << to_string(got.status)
                                     << "; wanted " << wr_id << ": " << to_string(status);
}

/// Two connected queue pairs.
struct Link {
  QueuePair a, b;
};

}  // namespace weft::test
