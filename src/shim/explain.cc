#include "shim/explain.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "network/address.h"
#include "shim/address.h"
#include "shim/objects.h"
#include "transport/message.h"
#include "verbs/shared_device.h"

namespace weft::shim {
namespace {

using queue::PeerView;

/// More than this helps nobody.
constexpr int kMostParagraphs = 200;

struct NotedRegion {
  std::uint64_t address = 0, length = 0;
  std::uint32_t rkey = 0, access = 0, pd = 0;
  std::string registered_by;
  bool gone = false;
};

/// By local key. Those that are gone stay, so that a late use can be told from a wrong number.
struct Regions {
  std::mutex mutex;
  std::map<std::uint32_t, NotedRegion> by_lkey;
};

Regions& regions() {
  static auto& all = *new Regions;
  return all;
}

void say(const std::string& paragraph) {
  static std::atomic<int> said{0};
  const int n = said.fetch_add(1);
  if (n > kMostParagraphs) return;
  std::string text = fmt::format("weft explains: {}\n", paragraph);
  if (n == kMostParagraphs) text = "weft explains: enough; nothing more is explained.\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string place_of(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return fmt::format("{}", address);
  const char* file = std::strrchr(info.dli_fname, '/');
  file = file != nullptr ? file + 1 : info.dli_fname;
  if (info.dli_sname != nullptr) return fmt::format("{} in {}", info.dli_sname, file);
  return fmt::format(
      "{}+{:#x}", file,
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
}

std::string rights_of(std::uint32_t access) {
  std::string text = "local read";
  const auto add = [&](std::uint32_t flag, const char* name) {
    if ((access & flag) != 0) text += fmt::format(", {}", name);
  };
  add(IBV_ACCESS_LOCAL_WRITE, "local write");
  add(IBV_ACCESS_REMOTE_READ, "remote read");
  add(IBV_ACCESS_REMOTE_WRITE, "remote write");
  add(IBV_ACCESS_REMOTE_ATOMIC, "remote atomic");
  add(IBV_ACCESS_MW_BIND, "window binding");
  return text;
}

std::string range_of(std::uint64_t address, std::uint64_t length) {
  return fmt::format("[{:#x}, {:#x}) ({} bytes)", address, address + length, length);
}

const char* kind_of(ibv_qp_type type) {
  return type == IBV_QPT_RC           ? "RC"
         : type == IBV_QPT_UC         ? "UC"
         : type == IBV_QPT_UD         ? "UD"
         : type == IBV_QPT_RAW_PACKET ? "raw"
                                      : "other";
}

std::string describe(const Qp& qp) {
  const QueuePairAttributes a = qp.qp.attributes();
  std::string text = fmt::format("queue pair {:#x} ({}, state {})", qp.qp.number().value,
                                 kind_of(qp.shown().qp_type), to_string(qp.qp.state()));
  if (a.remote_qpn.value != 0) {
    text += fmt::format(", connected to {:#x} at {}", a.remote_qpn.value,
                        network::to_string(a.remote_gid));
  }
  return text;
}

Access need_of(SendOp op) {
  switch (op) {
    case SendOp::kRead:
      return Access::kRemoteRead;
    case SendOp::kCompareSwap:
    case SendOp::kFetchAdd:
      return Access::kRemoteAtomic;
    default:
      return Access::kRemoteWrite;
  }
}

std::uint64_t total(const std::vector<Sge>& sges) {
  std::uint64_t sum = 0;
  for (const Sge& sge : sges) sum += sge.length;
  return sum;
}

// ---- causes -----------------------------------------------------------------------------------

/// The first element of the list that cannot be used, and why.
std::string why_local(const Qp& qp, const NotedRequest& request, bool writes) {
  Regions& all = regions();
  const std::lock_guard guard(all.mutex);
  for (std::size_t i = 0; i < request.sges.size(); ++i) {
    const Sge& sge = request.sges[i];
    if (sge.length == 0) continue;
    const std::string element = fmt::format("sg_list[{}] is {} with lkey {:#x}", i,
                                            range_of(sge.address, sge.length), sge.lkey.value);
    const auto at = all.by_lkey.find(sge.lkey.value);
    if (at == all.by_lkey.end()) {
      const bool is_rkey = std::any_of(all.by_lkey.begin(), all.by_lkey.end(), [&](auto& known) {
        return known.second.rkey == sge.lkey.value;
      });
      return fmt::format(
          "{}, and no region has that lkey{}. Use mr->lkey of the region that holds "
          "the buffer",
          element, is_rkey ? "; it is the rkey of one" : "");
    }
    const NotedRegion& region = at->second;
    const std::string registered = fmt::format("The region is {} with {}, registered by {}",
                                               range_of(region.address, region.length),
                                               rights_of(region.access), region.registered_by);
    if (region.gone) {
      return fmt::format(
          "{}, whose region has been deregistered. {}. Deregister only after the "
          "work request has completed",
          element, registered);
    }
    if (!memory::inside(sge.address, sge.length, region.address, region.length)) {
      return fmt::format("{}, which is not inside the region. {}", element, registered);
    }
    if (writes && (region.access & IBV_ACCESS_LOCAL_WRITE) == 0) {
      return fmt::format(
          "{}, where the answer is to be written. {}. It needs "
          "IBV_ACCESS_LOCAL_WRITE",
          element, registered);
    }
    if (qp.shown().pd != nullptr && region.pd != qp.shown().pd->handle) {
      return fmt::format("{}, whose region is of another protection domain than the queue pair. {}",
                         element, registered);
    }
  }
  return "every element lies in a live region: the memory itself is gone (unmapped or protected)";
}

std::string why_remote(Qp& qp, const NotedRequest& request) {
  queue::QueuePair& core = *verbs::Internals::of(qp.qp).core;
  const PeerView view =
      core.path != nullptr ? core.path->look_at_peer(core, request.remote.key) : PeerView{};
  const bool atomic = transport::is_atomic(request.op);
  const std::uint64_t length = atomic ? 8 : total(request.sges);
  const Access need = need_of(request.op);
  const std::string asked =
      fmt::format("It asked for {} with rkey {:#x}", range_of(request.remote.address, length),
                  request.remote.key.value);
  if (atomic && request.remote.address % 8 != 0) {
    return asked + ", and an atomic needs an address that is a multiple of 8";
  }
  switch (view.key) {
    case PeerView::Key::kUnknown:
      return asked + "; the peer's keys cannot be seen from here";
    case PeerView::Key::kNone:
      return asked +
             ". The peer has no such key. Was it sent in the right byte order, and is it "
             "mr->rkey (not mr->lkey) of the peer's region?";
    case PeerView::Key::kStale:
      return asked +
             ". The key is stale: the peer has deregistered that region, and perhaps "
             "registered another since. Send the new key after each registration";
    case PeerView::Key::kNotLive:
      return asked +
             ". The key exists but opens nothing now: a region that was deregistered, a "
             "window that is not bound, or one that was invalidated";
    case PeerView::Key::kLive:
      break;
  }
  const std::string granted =
      fmt::format("The peer granted {} with {}", range_of(view.base, view.length),
                  rights_of(static_cast<std::uint32_t>(view.rights)));
  if (!memory::inside(request.remote.address, length, view.base, view.length)) {
    const std::uint64_t end = request.remote.address + length;
    return fmt::format(
        "{}, which is not inside what was granted. {}{}", asked, granted,
        request.remote.address >= view.base && end > view.base + view.length
            ? fmt::format(": the request ends {} bytes behind it", end - (view.base + view.length))
            : "");
  }
  if (!has(view.rights, need)) {
    return fmt::format("{}. {}: register it with IBV_ACCESS_REMOTE_{} there", asked, granted,
                       need == Access::kRemoteRead    ? "READ"
                       : need == Access::kRemoteWrite ? "WRITE"
                                                      : "ATOMIC");
  }
  if (!view.same_domain) {
    return fmt::format("{}. {}, but in another protection domain than the peer's queue pair", asked,
                       granted);
  }
  if (!has(view.peer_allows, need)) {
    return fmt::format(
        "{}. The key would allow it, but the peer's queue pair does not: "
        "qp_access_flags of its ibv_modify_qp to INIT",
        asked);
  }
  return fmt::format(
      "{}. {}, which allows it now: the grant came after the request, or there was no memory "
      "behind "
      "it that may be touched so",
      asked, granted);
}

std::string why_dropped(Qp& qp) {
  queue::QueuePair& core = *verbs::Internals::of(qp.qp).core;
  const PeerView view =
      core.path != nullptr ? core.path->look_at_peer(core, RemoteKey()) : PeerView{};
  switch (view.peer) {
    case PeerView::Peer::kDead:
      return "The peer's process has ended";
    case PeerView::Peer::kNobody:
      return fmt::format(
          "No queue pair of that number exists at that address: it was destroyed, its process has "
          "ended, or dest_qp_num or the GID is wrong{}",
          verbs::is_network_address(qp.qp.attributes().remote_gid)
              ? ""
              : ". Other hosts have an address like this "
                "one, too: if the peer is on another, start "
                "both sides by weft run --device weft0=auto");
    case PeerView::Peer::kNotReady:
      return "The peer's queue pair exists but does not receive: it was never moved to RTR, or it "
             "is in the error state (its own side tells why)";
    case PeerView::Peer::kAddressGone:
      return fmt::format(
          "This machine no longer has the address {}, from which it sends: give it back to an "
          "interface (`ip address add`), then connect anew",
          network::to_string(core.local_gid));
    case PeerView::Peer::kLinkDown:
      return fmt::format(
          "The interface that has the address {} is down, or its cable is not plugged in (`ip "
          "link` "
          "shows it): nothing leaves this machine from there",
          network::to_string(core.local_gid));
    default:
      break;
  }
  const std::string gids = foreign_gids(Context::of(qp.plain()->context), qp.address);
  return fmt::format("The peer did not answer in time (timeout and retry_cnt of ibv_modify_qp){}{}",
                     gids.empty() ? "" : ". ", gids);
}

std::string cause(Qp& qp, const NotedRequest& request, CompletionStatus status) {
  const bool reads_back = request.op == SendOp::kRead || request.op == SendOp::kCompareSwap ||
                          request.op == SendOp::kFetchAdd;
  switch (status) {
    case CompletionStatus::kLocalProtectionError:
    case CompletionStatus::kLocalAccessError:
      return why_local(qp, request, request.is_receive || reads_back);
    case CompletionStatus::kLocalLengthError:
      return request.is_receive
                 ? fmt::format("A message came that is longer than the {} bytes posted for it",
                               total(request.sges))
                 : fmt::format("Its {} bytes are more than such a message may have",
                               total(request.sges));
    case CompletionStatus::kRemoteAccessError:
      return why_remote(qp, request);
    case CompletionStatus::kRemoteInvalidRequest:
      return need_of(request.op) == Access::kRemoteWrite && request.op <= SendOp::kSendInvalidate
                 ? fmt::format("Its {} bytes are more than the receive buffer that the peer posted",
                               total(request.sges))
                 : why_remote(qp, request);
    case CompletionStatus::kRemoteOperationError:
      return "The peer could not write into its own receive buffer: its scatter list is wrong "
             "there (its own completion tells how)";
    case CompletionStatus::kRnrRetryExceeded:
      return fmt::format(
          "The peer's receive queue was empty each time: post receives before the "
          "sender sends, or set rnr_retry to 7 (it is {})",
          qp.qp.attributes().rnr_retry);
    case CompletionStatus::kRetryExceeded:
      return why_dropped(qp);
    case CompletionStatus::kWindowBindError:
      return "The region lacks IBV_ACCESS_MW_BIND or the rights asked for, the range is not inside "
             "it, or the window is of another protection domain or bound already";
    default:
      return "No more is known";
  }
}

}  // namespace

bool explaining() {
  static const bool wanted = std::getenv("WEFT_EXPLAIN") != nullptr;
  return wanted;
}

void Notebook::add(NotedRequest request) {
  const std::lock_guard guard(mutex_);
  if (request.is_receive) ++receives_;
  if (requests_.size() == kMost) requests_.pop_front();
  requests_.push_back(std::move(request));
}

bool Notebook::take(std::uint64_t wr_id, bool is_receive, NotedRequest* out) {
  const std::lock_guard guard(mutex_);
  const auto at = std::find_if(requests_.begin(), requests_.end(), [&](const NotedRequest& noted) {
    return noted.wr_id == wr_id && noted.is_receive == is_receive;
  });
  if (at == requests_.end()) return false;
  *out = std::move(*at);
  requests_.erase(at);
  return true;
}

void note(Qp& qp, const SendRequest& request) {
  qp.notebook->add({request.wr_id, request.op, false,
                    std::vector<Sge>(request.sges.begin(), request.sges.end()), request.remote});
}

void note(Qp& qp, const ReceiveRequest& request) {
  qp.notebook->add({request.wr_id,
                    SendOp::kSend,
                    true,
                    std::vector<Sge>(request.sges.begin(), request.sges.end()),
                    {}});
}

void note_region(const ibv_mr* mr, std::uint32_t access, const void* caller) {
  Regions& all = regions();
  const std::lock_guard guard(all.mutex);
  all.by_lkey[mr->lkey] = {reinterpret_cast<std::uint64_t>(mr->addr),
                           mr->length,
                           mr->rkey,
                           access,
                           mr->pd->handle,
                           place_of(caller)};
}

void forget_region(const ibv_mr* mr) {
  Regions& all = regions();
  const std::lock_guard guard(all.mutex);
  const auto at = all.by_lkey.find(mr->lkey);
  if (at != all.by_lkey.end()) at->second.gone = true;
}

void explain_call(const char* function, const std::string& object, const Error& error) {
  say(fmt::format("{} on {} was refused. {}.", function, object, error.message));
}

void explain_call(const char* function, const Qp& qp, const Error& error) {
  explain_call(function, describe(qp), error);
}

void remark_on_call(const char* function, const std::string& object, const std::string& remark) {
  say(fmt::format("{} on {}: {}.", function, object, remark));
}

void remark_on_call(const char* function, const Qp& qp, const std::string& remark) {
  remark_on_call(function, describe(qp), remark);
}

void explain_completion(Context& context, const ibv_wc& completion) {
  // The first failure of a queue pair flushes the rest: only it has a cause of its own.
  if (completion.status == IBV_WC_WR_FLUSH_ERR) return;
  const auto status = static_cast<CompletionStatus>(completion.status);
  context.qps.with(completion.qp_num, [&](Qp& qp) {
    const bool is_receive = (completion.opcode & IBV_WC_RECV) != 0;
    NotedRequest request;
    const bool known = qp.notebook->take(completion.wr_id, is_receive, &request);
    say(fmt::format("{} (wr_id {:#x}, {} bytes) on {} failed: {}. {}.",
                    is_receive ? "a receive" : to_string(request.op), completion.wr_id,
                    total(request.sges), describe(qp), to_string(status),
                    known ? cause(qp, request, status)
                          : "The request was posted too long ago to be remembered"));
  });
}

}  // namespace weft::shim
