// What channels are compared with: small messages as sends into buffers that all connections of a
// process share (a shared receive queue), large ones by rendezvous: an offer, a read by the
// receiver, a word that it is done. Its memory does not grow with traffic, and each message passes
// two queues. As little code as such a library can do with: no close, no order between small and
// large. One thread in each of the two processes of a pair; both make the same calls.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "demo/pair.h"

namespace weft::demo {

class SharedQueue {
 public:
  static constexpr std::uint32_t kBuffers = 512, kBufferBytes = 512;

  explicit SharedQueue(Pair& pair);
  ~SharedQueue();
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;

  /// One more connection, of which nothing but its weight is asked.
  void add_connection();
  /// A message of up to kBufferBytes; waits while the peer has no buffer for it.
  void send(std::span<const std::byte> message);
  void receive();
  /// A message that the peer reads where it is; waits until at most `under_way` are unread.
  void lend(std::span<const std::byte> message, std::size_t under_way);
  /// Reads the next one of those.
  void pull();

 private:
  enum class Kind : std::uint32_t { kData, kCredit, kOffer, kDone };
  struct Offer {
    std::uint64_t address = 0, length = 0;
    std::uint32_t key = 0;
  };

  ibv_qp* connect();
  void post_buffer(std::uint64_t index);
  void post(Kind kind, std::span<const std::byte> bytes);
  void poll();
  void take(const ibv_wc& wc);

  Pair& pair_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  std::vector<std::byte> buffers_, place_;
  ibv_mr *region_ = nullptr, *place_region_ = nullptr;
  std::vector<ibv_qp*> connections_;  // the first is the one that works
  std::uint32_t credit_ = kBuffers / 2, owed_ = 0, posted_ = 0;
  bool reading_ = false;
  std::uint64_t arrived_ = 0;
  std::deque<Offer> offers_;
  std::deque<ibv_mr*> lent_;
};

}  // namespace weft::demo
