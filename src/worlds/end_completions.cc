// What a completion means to the program that posted the work: is it explained, and does memory
// hold what it promises?
#include <fmt/format.h>

#include <algorithm>

#include "sim/pattern.h"
#include "worlds/end.h"
#include "worlds/link.h"

namespace weft::worlds {
namespace {

constexpr std::uint8_t kRetryForEver = 7;

std::vector<std::byte> message(const End& end, std::uint64_t sequence, std::uint32_t length) {
  std::vector<std::byte> bytes(length);
  sim::fill_message(end.key, sequence, bytes);
  return bytes;
}

bool is_write(SendOp op) { return op == SendOp::kWrite || op == SendOp::kWriteImmediate; }
bool is_message(SendOp op) {
  return op == SendOp::kSend || op == SendOp::kSendImmediate || op == SendOp::kSendInvalidate ||
         op == SendOp::kWriteImmediate;
}

/// May this request end so? An error that nothing explains is as bad as a lost byte.
bool explained(const End& end, const Work& work, CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
      return work.expected == CompletionStatus::kSuccess;
    case CompletionStatus::kFlushed: {
      const QpState state = end.qp->state();
      return state == QpState::kError || state == QpState::kSendQueueError;
    }
    case CompletionStatus::kRetryExceeded:
      return end.link.disturbed(end);
    case CompletionStatus::kRnrRetryExceeded:
      return end.spec.attributes.rnr_retry != kRetryForEver;
    case CompletionStatus::kRemoteAccessError:
      return work.expected == status || (work.exposure != nullptr && work.exposure->revoked);
    default:
      return work.expected == status;
  }
}

/// True when nothing behind the failed request can have happened: the peer refused it and took no
/// more, or it never left.
bool is_exact(CompletionStatus status) {
  return status == CompletionStatus::kRemoteAccessError ||
         status == CompletionStatus::kRemoteInvalidRequest ||
         status == CompletionStatus::kRemoteOperationError ||
         status == CompletionStatus::kLocalProtectionError ||
         status == CompletionStatus::kWindowBindError;
}

void compare(End& end, const Work& work, std::span<const std::byte> found,
             std::span<const std::byte> wanted, std::string_view what) {
  end.stage.stats.bytes_verified += wanted.size();
  const auto [at, unused] = std::ranges::mismatch(found, wanted);
  if (at == found.end() && found.size() == wanted.size()) return;
  end.stage.judge.violated(fmt::format("{}: request #{}: {}: {} bytes, wrong from byte {} on",
                                       end.name(), work.wr_id, what, found.size(),
                                       at - found.begin()));
}

// ---- success --------------------------------------------------------------------------------

void confirm_write(End& end, const Work& work) {
  ++end.stage.stats.writes;
  End& owner = *end.peer;
  if (!end.reliable() || owner.shelf.size() == 0) return;
  const auto content = message(end, work.sequence, work.length);
  owner.shelf.confirmed(work.shelf_offset, content);
  // A later write may have changed the bytes already; then the later one is compared.
  if (!owner.shelf.is_latest(work.shelf_offset, work.length, work.sequence)) return;
  std::vector<std::byte> found(work.length);
  owner.process().shadow.load(owner.shelf_ea + work.shelf_offset, found);
  compare(end, work, found, content, "the write is complete, but the peer's memory differs");
}

void confirm_read(End& end, const Work& work) {
  ++end.stage.stats.reads;
  std::vector<std::byte> found(work.length);
  end.process().shadow.load(end.landing.at(work.landing_slot), found);
  compare(end, work, found, work.wanted, "the read brought something else");
}

void confirm_atomic(End& end, const Work& work) {
  ++end.stage.stats.atomics;
  std::uint64_t old = 0;
  end.process().shadow.load(end.landing.at(work.landing_slot),
                            std::as_writable_bytes(std::span(&old, 1)));
  if (end.peer->life == 0) return;  // the word has vanished with its node
  Process& owner = end.peer->process();
  if (work.op == SendOp::kFetchAdd) {
    owner.counters[work.word].succeeded(work.operand, old, end.stage.judge);
  } else {
    owner.swaps[work.word].succeeded(work.compare, work.operand, old, end.stage.judge);
  }
}

void forget_exposure(End& owner, const std::shared_ptr<Exposure>& exposure) {
  owner.process().shadow.revoke(exposure->grant);
  owner.windows[exposure->slot].in_use = false;
  std::erase(owner.exposures, exposure);
}

void confirm_owner_work(End& end, const Work& work) {
  if (work.op == SendOp::kBind && !work.exposure->revoked) {
    ++end.stage.stats.binds;
    work.exposure->offered = true;
  } else if (work.op != SendOp::kDelay) {
    forget_exposure(end, work.exposure);
  }
}

void confirm(End& end, const Work& work) {
  switch (work.op) {
    case SendOp::kWrite:
    case SendOp::kWriteImmediate:
      confirm_write(end, work);
      break;
    case SendOp::kRead:
      confirm_read(end, work);
      break;
    case SendOp::kCompareSwap:
    case SendOp::kFetchAdd:
      confirm_atomic(end, work);
      break;
    case SendOp::kBind:
    case SendOp::kLocalInvalidate:
    case SendOp::kDelay:
      confirm_owner_work(end, work);
      break;
    default:
      break;
  }
  if (is_message(work.op)) ++end.acknowledged;
}

}  // namespace

void free_resources(End& end, Work& work) {
  end.outbox.give_back(work.outbox_slot);
  end.landing.give_back(work.landing_slot);
  end.process().shadow.revoke(work.landing_grant);
}

void leave_in_doubt(End& end, Work& work) {
  if (is_write(work.op) && end.peer->shelf.size() != 0 && work.length > 0 &&
      work.expected == CompletionStatus::kSuccess) {
    end.peer->shelf.doubtful(work.shelf_offset, work.length);
  }
}

void retire(End& end, Work& work, CompletionStatus status) {
  if (!explained(end, work, status)) {
    end.stage.judge.violated(fmt::format(
        "{}: request #{} ({}) ended with \"{}\", which nothing explains (it should be \"{}\")",
        end.name(), work.wr_id, to_string(work.op), to_string(status), to_string(work.expected)));
  }
  if (status == CompletionStatus::kSuccess) {
    confirm(end, work);
  } else {
    const bool behind_exact =
        status == CompletionStatus::kFlushed && end.first_error && is_exact(*end.first_error);
    const bool refused_whole =
        is_exact(status) && (work.exposure == nullptr || !work.exposure->revoked);
    if (!behind_exact && !refused_whole) leave_in_doubt(end, work);
    if (status == CompletionStatus::kRemoteAccessError) ++end.stage.stats.refused;
    if (status != CompletionStatus::kFlushed && !end.first_error) end.first_error = status;
    end.failed = true;
    end.link.on_error();
  }
  free_resources(end, work);
}

void End::on_completion(const Completion& completion) {
  if ((completion.wr_id & kReceiveMark) != 0) return on_receive(*this, completion);
  std::string wrong;
  std::vector<Work> done = ledger.completed(completion.wr_id, &wrong);
  if (!wrong.empty()) return stage.judge.violated(name() + ": " + wrong);
  // Those before it were not signaled: that nothing was heard of them means that they succeeded.
  for (std::size_t i = 0; i + 1 < done.size(); ++i) {
    retire(*this, done[i], CompletionStatus::kSuccess);
  }
  retire(*this, done.back(), completion.status);
}

// ---- receives -------------------------------------------------------------------------------

namespace {

/// A reliable connection delivers everything, in order. An unreliable one may leave out, and repeat
/// and exchange what the network repeats and exchanges.
std::optional<Announced> match(End& sender, const Completion& completion,
                               std::span<const std::byte> content) {
  if (sender.reliable()) {
    if (sender.announced.empty()) return {};
    Announced front = sender.announced.front();
    sender.announced.pop_front();
    return front;
  }
  const auto fits = [&](const Announced& message) {
    return completion.has_immediate
               ? completion.immediate == static_cast<std::uint32_t>(message.sequence)
               : message.sequence == sim::sequence_in(content);
  };
  const auto found = std::ranges::find_if(sender.announced, fits);
  if (found == sender.announced.end()) return {};
  return *found;
}

std::string describe(const Announced& message) {
  return fmt::format("message {} ({} bytes{}{})", message.sequence, message.length,
                     message.write ? ", written" : "", message.has_immediate ? ", immediate" : "");
}

void on_failed_receive(End& end, const Completion& completion) {
  if (completion.status == CompletionStatus::kFlushed) {
    if (end.qp->state() == QpState::kError) return end.link.on_error();
  } else {
    const Announced* next = end.peer->announced.empty() ? nullptr : &end.peer->announced.front();
    const bool too_long = completion.status == CompletionStatus::kLocalLengthError &&
                          next != nullptr && next->too_long;
    const bool stale = completion.status == CompletionStatus::kRemoteInvalidRequest &&
                       next != nullptr && next->invalidated != nullptr &&
                       next->invalidated->revoked;
    end.failed = true;
    if (too_long || stale) return end.link.on_error();
  }
  end.stage.judge.violated(fmt::format("{}: a receive ended with \"{}\", which nothing explains",
                                       end.name(), to_string(completion.status)));
}

void on_message(End& end, const Completion& completion, const ReceiveBuffers::Buffer& buffer) {
  ReceiveBuffers& buffers =
      end.shared_receive != nullptr ? end.shared_receive->buffers : *end.own_receives;
  const bool written = completion.op == CompletionOp::kReceiveWriteImmediate;
  std::vector<std::byte> content;
  if (!written) content = buffers.content(buffer, completion.byte_count);
  const auto message_due = match(*end.peer, completion, content);
  if (!message_due) {
    return end.stage.judge.violated(
        fmt::format("{}: a message of {} bytes came that the peer has not sent, or has sent before",
                    end.name(), completion.byte_count));
  }
  const Announced& due = *message_due;
  const bool fits =
      due.length == completion.byte_count && due.write == written &&
      due.has_immediate == completion.has_immediate &&
      (!due.has_immediate || completion.immediate == static_cast<std::uint32_t>(due.sequence)) &&
      (due.invalidated != nullptr) == completion.has_invalidate;
  if (!fits) {
    return end.stage.judge.violated(fmt::format(
        "{}: {} was due, but {} bytes came, which say that they are message {}, immediate {}",
        end.name(), describe(due), completion.byte_count, sim::sequence_in(content),
        completion.immediate));
  }
  if (written && end.reliable()) {
    content.resize(due.length);
    end.process().shadow.load(end.shelf_ea + due.shelf_offset, content);
  }
  ++end.received;
  ++(end.stage.stats.*(end.reliable() ? &sim::Stats::messages : &sim::Stats::datagrams));
  // Written data may have been overwritten by a later write before the program looked.
  const auto wanted = message(*end.peer, due.sequence, due.length);
  if (!written ||
      (end.reliable() && end.shelf.is_latest(due.shelf_offset, due.length, due.sequence))) {
    Work as_work;
    as_work.wr_id = completion.wr_id & ~kReceiveMark;
    compare(end, as_work, content, wanted, describe(due));
  }
  if (due.invalidated != nullptr) forget_exposure(end, due.invalidated);
}

}  // namespace

void on_receive(End& end, const Completion& completion) {
  ReceiveBuffers& buffers =
      end.shared_receive != nullptr ? end.shared_receive->buffers : *end.own_receives;
  const ReceiveBuffers::Buffer* buffer = buffers.completed(completion.wr_id);
  if (buffer == nullptr) {
    return end.stage.judge.violated(
        fmt::format("{}: receive buffer #{} completes, but it is not posted", end.name(),
                    completion.wr_id & ~kReceiveMark));
  }
  if (completion.ok()) {
    on_message(end, completion, *buffer);
  } else {
    on_failed_receive(end, completion);
  }
  if (!end.spec.lazy_receiver && end.qp->state() != QpState::kError) end.refill_receives(1);
}

}  // namespace weft::worlds
