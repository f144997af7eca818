// One reliable datagram queue pair of a mesh, which the work of many pairs goes by: what is posted
// is numbered, and each completion stands for all before it. What finds no room waits here, in
// order. Belongs to a mesh; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mesh/note.h"
#include "weft/mesh.h"
#include "weft/verbs.h"

namespace weft::mesh {

/// Whose work it is. A number may serve another link later; a serial never.
struct Mark {
  std::uint32_t link = ~0u;
  std::uint32_t serial = 0;
  std::uint32_t number = 0;  ///< the outlet's number of the work; 0: it does not count there
};

/// One piece of work, for the mesh at `to`.
struct LaneWork {
  SendOp op = SendOp::kWrite;
  Sge sge;
  std::span<const std::byte> inlined{};  ///< instead: taken before submit() returns
  RemoteAddress remote;
  std::uint32_t immediate = 0;
  bool signaled = false;
  Address to;
  Mark mark;
};

class Lane {
 public:
  static Result<std::unique_ptr<Lane>> open(const verbs::ProtectionDomain& pd,
                                            const verbs::CompletionQueue& cq,
                                            const verbs::SharedReceiveQueue& receives,
                                            const Options& options, std::uint32_t depth);

  Qpn number() const { return qp_.number(); }
  /// False: the queue pair has failed.
  bool submit(const LaneWork& work);
  /// Posts what waits, as far as there is room. True: there was something.
  bool flush();
  /// What waits of this link will not be posted.
  void drop(const Mark& whose);
  bool has_waiting(const Mark& whose) const;

  /// The work of a completion with this wr_id, and all before it, is complete. Nothing: no such
  /// work was outstanding.
  std::optional<Mark> on_completion(std::uint64_t wr_id);
  /// Of the newest work.
  std::uint64_t posted() const { return posted_; }
  bool done(std::uint64_t number) const { return completed_ >= number; }
  /// All that was submitted is complete; it may take another call to learn so.
  bool is_through();
  /// Some completion will come for that work; without this, only if more work follows.
  void ask_for(std::uint64_t number);

 private:
  struct Waiting {
    LaneWork work;
    std::array<std::byte, Note::kBytes> bytes;
  };
  Lane(verbs::QueuePair qp, QKey qkey, std::uint32_t depth)
      : qp_(std::move(qp)), qkey_(qkey), depth_(depth), marks_(depth) {}
  bool has_room() const { return posted_ - completed_ < depth_; }
  bool post(const LaneWork& work);

  verbs::QueuePair qp_;
  const QKey qkey_;
  const std::uint32_t depth_;
  std::uint64_t posted_ = 0, completed_ = 0, signaled_ = 0;
  std::vector<Mark> marks_;  ///< of the work that is outstanding, by number
  std::deque<Waiting> waiting_;
  bool failed_ = false;
};

}  // namespace weft::mesh
