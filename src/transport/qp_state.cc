#include "transport/qp_state.h"

#include <fmt/format.h>

namespace weft::transport {
namespace {

using A = QpAttribute;
using S = QpState;

constexpr int kServices = 4;  // whose moves the table has

struct Row {
  S from;
  S to;
  A required[kServices];  // RC, UC, UD, RD
  A optional[kServices];
};

constexpr A kConnectedInit = A::kPKeyIndex | A::kPort | A::kAccess;
constexpr A kDatagramInit = A::kPKeyIndex | A::kPort | A::kQKey;
constexpr A kUcRtr = A::kAddress | A::kPathMtu | A::kRemoteQpn | A::kReceivePsn;
constexpr A kRcRtr = kUcRtr | A::kMaxDestRdAtomic | A::kMinRnrTimer;
constexpr A kRcRts = A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kSendPsn | A::kMaxRdAtomic;
constexpr A kRcLive = A::kAccess | A::kMinRnrTimer;
// What belongs to a connection belongs to contexts here: they take it from the queue pair for which
// they are made.
constexpr A kRdInit = kConnectedInit | A::kQKey;
constexpr A kRdRtr = A::kAccess | A::kPKeyIndex | A::kQKey | A::kPathMtu | A::kMaxDestRdAtomic |
                     A::kMinRnrTimer | A::kAckPolicy;
constexpr A kRdRts = kRcRts | A::kAccess | A::kQKey;
constexpr A kRdLive = kRcLive | A::kQKey;

// Moves to RESET and ERR are allowed from everywhere and need nothing: they have no rows.
constexpr Row kTable[] = {
    {S::kReset, S::kInit, {kConnectedInit, kConnectedInit, kDatagramInit, kRdInit}, {}},
    {S::kInit, S::kInit, {}, {kConnectedInit, kConnectedInit, kDatagramInit, kRdInit}},
    {S::kInit,
     S::kReadyToReceive,
     {kRcRtr, kUcRtr, A::kNone, A::kNone},
     {A::kAccess | A::kPKeyIndex | A::kAckPolicy, A::kAccess | A::kPKeyIndex,
      A::kPKeyIndex | A::kQKey | A::kPathMtu, kRdRtr}},
    {S::kReadyToReceive,
     S::kReadyToSend,
     {kRcRts, A::kSendPsn, A::kSendPsn, A::kNone},
     {kRcLive, A::kAccess, A::kQKey, kRdRts}},
    {S::kReadyToSend, S::kReadyToSend, {}, {kRcLive, A::kAccess, A::kQKey, kRdLive}},
    {S::kReadyToSend, S::kSendQueueDrained, {}, {}},
    {S::kSendQueueDrained, S::kReadyToSend, {}, {kRcLive, A::kAccess, A::kQKey, kRdLive}},
    {S::kSendQueueDrained,
     S::kSendQueueDrained,
     {},
     {A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kMaxRdAtomic | kRcLive | A::kPKeyIndex,
      A::kAccess | A::kPKeyIndex, A::kPKeyIndex | A::kQKey,
      kRdLive | A::kRnrRetry | A::kPKeyIndex}},
    {S::kSendQueueError, S::kReadyToSend, {}, {A::kNone, A::kAccess, A::kQKey, A::kNone}},
};

/// A raw queue pair has no peer, and needs to know its port alone.
Transition raw_transition(S from, S to) {
  switch (from) {
    case S::kReset:
      return {to == S::kInit, A::kPort, A::kPKeyIndex};
    case S::kInit:
      if (to == S::kInit) return {true, A::kNone, A::kPort | A::kPKeyIndex};
      return {to == S::kReadyToReceive, A::kNone, A::kNone};
    case S::kReadyToReceive:
    case S::kSendQueueError:
      return {to == S::kReadyToSend, A::kNone, A::kNone};
    case S::kReadyToSend:
    case S::kSendQueueDrained:
      return {to == S::kReadyToSend || to == S::kSendQueueDrained, A::kNone, A::kNone};
    case S::kError:
      break;
  }
  return {};
}

}  // namespace

Transition transition(Service service, QpState from, QpState to) {
  if (to == S::kReset || to == S::kError) return {true, A::kNone, A::kNone};
  if (service == Service::kRawDatagram) return raw_transition(from, to);
  // A reliable service never enters SQE, so it never leaves it either.
  if (from == S::kSendQueueError &&
      (service == Service::kReliableConnection || service == Service::kReliableDatagram)) {
    return {};
  }
  const auto index = static_cast<std::size_t>(service);
  for (const Row& row : kTable) {
    if (row.from == from && row.to == to) {
      return {true, row.required[index], row.optional[index]};
    }
  }
  return {};
}

Result<void> check_transition(Service service, QpState from, QpState to, QpAttribute given) {
  const Transition rule = transition(service, from, to);
  if (!rule.allowed) {
    return fail(Errc::kInvalidState,
                fmt::format("state: a {} queue pair cannot go from {} to {}", to_string(service),
                            to_string(from), to_string(to)));
  }
  const QpAttribute missing = rule.required & ~given;
  if (missing != A::kNone) {
    return fail(Errc::kInvalidArgument,
                fmt::format("attributes: {} to {} needs {}", to_string(from), to_string(to),
                            to_string(missing)));
  }
  const QpAttribute extra = given & ~(rule.required | rule.optional);
  if (extra != A::kNone && to != S::kReset && to != S::kError) {
    return fail(Errc::kInvalidArgument,
                fmt::format("attributes: {} cannot be set from {} to {}", to_string(extra),
                            to_string(from), to_string(to)));
  }
  return {};
}

}  // namespace weft::transport
