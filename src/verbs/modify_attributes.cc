#include "verbs/modify_attributes.h"

#include <fmt/format.h>

#include <string_view>

#include "verbs/controller.h"
#include "verbs/limits.h"

namespace weft::verbs {

void take_given(QueuePairAttributes& to, const QueuePairAttributes& from, QpAttribute given) {
  const auto set = [given](QpAttribute flag, auto& field, const auto& value) {
    if (has(given, flag)) field = value;
  };
  set(QpAttribute::kPort, to.port, from.port);
  set(QpAttribute::kPKeyIndex, to.pkey_index, from.pkey_index);
  set(QpAttribute::kAccess, to.access, from.access);
  set(QpAttribute::kQKey, to.qkey, from.qkey);
  set(QpAttribute::kPathMtu, to.path_mtu, from.path_mtu);
  set(QpAttribute::kAddress, to.remote_gid, from.remote_gid);
  set(QpAttribute::kRemoteQpn, to.remote_qpn, from.remote_qpn);
  set(QpAttribute::kReceivePsn, to.receive_psn, from.receive_psn);
  set(QpAttribute::kMaxDestRdAtomic, to.max_dest_rd_atomic, from.max_dest_rd_atomic);
  set(QpAttribute::kMinRnrTimer, to.min_rnr_timer, from.min_rnr_timer);
  set(QpAttribute::kAckPolicy, to.ack_policy, from.ack_policy);
  set(QpAttribute::kSendPsn, to.send_psn, from.send_psn);
  set(QpAttribute::kTimeout, to.timeout, from.timeout);
  set(QpAttribute::kRetryCount, to.retry_count, from.retry_count);
  set(QpAttribute::kRnrRetry, to.rnr_retry, from.rnr_retry);
  set(QpAttribute::kMaxRdAtomic, to.max_rd_atomic, from.max_rd_atomic);
}

Result<void> check_given(const Controller& controller, const queue::QueuePair& qp,
                         const QueuePairAttributes& a, QpAttribute given) {
  const auto at_most = [&](QpAttribute flag, std::string_view name, std::uint64_t value,
                           std::uint64_t most) -> Result<void> {
    if (!has(given, flag) || value <= most) return {};
    return fail(Errc::kInvalidArgument, fmt::format("{}: {} is more than {}", name, value, most));
  };
  if (has(given, QpAttribute::kPort) && (a.port == 0 || a.port > controller.info().ports)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("port: {}, but {} has ports 1 to {}", a.port, controller.info().name,
                            controller.info().ports));
  }
  const std::uint8_t port = has(given, QpAttribute::kPort) ? a.port : qp.attributes.port;
  if (has(given, QpAttribute::kPathMtu) && bytes(a.path_mtu) > bytes(controller.max_mtu(port))) {
    return fail(Errc::kInvalidArgument,
                fmt::format("path_mtu: {}, but port {} carries at most {}", bytes(a.path_mtu), port,
                            bytes(controller.max_mtu(port))));
  }
  if (auto ok = at_most(QpAttribute::kPKeyIndex, "pkey_index", a.pkey_index, 0); !ok) return ok;
  if (auto ok = at_most(QpAttribute::kRemoteQpn, "remote_qpn", a.remote_qpn.value, kMask24); !ok) {
    return ok;
  }
  if (auto ok = at_most(QpAttribute::kMaxDestRdAtomic, "max_dest_rd_atomic", a.max_dest_rd_atomic,
                        kMaxRdAtomic);
      !ok) {
    return ok;
  }
  if (auto ok = at_most(QpAttribute::kMaxRdAtomic, "max_rd_atomic", a.max_rd_atomic, kMaxRdAtomic);
      !ok) {
    return ok;
  }
  if (auto ok = at_most(QpAttribute::kMinRnrTimer, "min_rnr_timer", a.min_rnr_timer, 31); !ok) {
    return ok;
  }
  if (auto ok = at_most(QpAttribute::kTimeout, "timeout", a.timeout, 31); !ok) return ok;
  if (auto ok = at_most(QpAttribute::kRetryCount, "retry_count", a.retry_count, 7); !ok) return ok;
  return at_most(QpAttribute::kRnrRetry, "rnr_retry", a.rnr_retry, 7);
}

}  // namespace weft::verbs
