// One end of a connection over libibverbs: the endpoint of the protocol, its queue pair and its
// identifier of the connection manager. Owned by the handles (Channel, Message) and, until it is
// accepted, by its listener; the context knows it by number. All under the context's lock.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "channel/dormant.h"
#include "channel/endpoint.h"
#include "channel/ring_store.h"
#include "channel/slab.h"
#include "weft/channel.h"

namespace weft::channel {

class ListenerObject;

enum class Life : std::uint8_t {
  kConnecting,
  kOpen,
  kLost,   ///< the peer or the queue pair is gone; what has arrived can still be received
  kClosed  ///< by this end
};

class ChannelObject final : public Wires {
 public:
  ChannelObject(std::shared_ptr<ContextObject> context, std::shared_ptr<const Settings> settings);
  ~ChannelObject();
  ChannelObject(const ChannelObject&) = delete;
  ChannelObject& operator=(const ChannelObject&) = delete;

  /// Rings, control block and queue pair; false: error() says why.
  bool prepare(rdma_cm_id* id);
  void meet(const Hello& peer);
  Hello hello() const;
  /// Ends the connection. The rings stay for those who still look at messages in them.
  void disconnect();
  void lose(std::string why);
  /// If the endpoint has failed, be it that the peer broke a rule: the connection is lost, and the
  /// peer writes nothing more into this end's memory.
  void lose_if_failed();
  /// Whether the connection manager's identifier goes when the connection stands: both ends must
  /// want it.
  bool lets_identifier_go() const { return lets_go_; }
  void keep_identifier() { lets_go_ = false; }
  void let_identifier_go();
  /// The peer has said that nothing follows, and nobody else will say that it has gone.
  bool is_being_left() const {
    return probed && life_ == Life::kOpen && endpoint_ != nullptr &&
           endpoint_->receive().peer_closed();
  }
  /// Such a peer waits for our word that all has arrived; with that the connection is over.
  void confirm_end();

  ContextObject& context() const { return *context_; }
  Endpoint& endpoint() {
    if (endpoint_ == nullptr) [[unlikely]]
      wake();
    return *endpoint_;
  }
  bool has_endpoint() const { return endpoint_ != nullptr || dormant_ != nullptr; }
  bool is_lean() const { return settings_->lean; }
  bool is_watching() const { return endpoint_ != nullptr && endpoint_->mode() == Mode::kWatching; }
  /// Of a lean channel at rest only a few numbers stay. False: it is not at rest.
  bool become_dormant();
  Life life() const { return life_; }
  /// Nothing is to be done for it before its next message is looked for.
  bool is_ordinary() const { return life_ == Life::kOpen && active && !endpoint_->owes_status(); }
  void set_life(Life life) { life_ = life; }
  std::string error() const { return error_ != nullptr ? *error_ : std::string(); }
  std::uint32_t index() const { return index_; }
  std::uint32_t qpn() const { return qp_ != nullptr ? qp_->qp_num : 0; }
  std::uint64_t charged_bytes() const { return charged_; }
  rdma_cm_id* id() const { return id_; }
  void set_id(rdma_cm_id* id) { id_ = id; }
  Statistics statistics() const;

  // Wires
  std::optional<Ring> provision(RingUse use, std::uint32_t phase, std::uint32_t slots,
                                std::uint32_t slot_bytes) override;
  void unregister(Ring& ring) override;
  void release(Ring& ring) override;
  void discard(Ring& ring) override;
  std::optional<Region> lend(std::span<const std::byte> bytes) override;
  std::optional<Region> borrow(std::uint64_t bytes) override;
  void give_back(Region& region) override;
  bool post(const Work& work) override;
  bool write(const std::byte* from, std::uint32_t length, std::uint64_t remote, FrameKeys keys,
             FrameMark mark) override;

  // The context's notes about this channel.
  std::uint64_t tag = 0;
  bool active = false;
  bool spoke = false;       ///< since the last round
  bool kept = false;        ///< only views are left of it, and the context keeps it for them
  bool ready : 1 = false;   ///< already reported ready
  bool listed : 1 = false;  ///< is in the context's list of those to report
  bool grown : 1 = false, blocked : 1 = false, counted_connecting : 1 = false;
  bool probed : 1 = false;          ///< has no identifier any more
  bool doze_candidate : 1 = false;  ///< is in the context's list of those that may become dormant
  std::uint32_t views = 0;
  std::uint16_t vain = 0, takes = 0;  ///< since the last round for all
  std::uint32_t frames_seen = 0;      ///< when it was last looked at, as far as the number goes
  Nanoseconds last_event_ns = 0;
  ListenerObject* listener = nullptr;  ///< until it is accepted

  /// A message that was received comes back; after some of them, or one, took_back().
  void take_back(std::span<const std::byte> message, std::uint32_t frame, void* region) {
    if (region != nullptr) return take_back_region(message, region);
    endpoint_->release_view(frame);
  }
  void took_back() {
    endpoint_->released();
    watch_unnotified();
  }
  /// Keeps polling for a peer that was told something and not notified, until it is certain that it
  /// looked by itself.
  void watch_unnotified() {
    if (endpoint_->unnotified() && !watched() && life_ == Life::kOpen) watch();
  }
  /// Something was sent.
  void sent() {
    blocked = false;
    spoke = true;
    if (!watched() && (endpoint_->unnotified() || endpoint_->busy())) watch();
  }

 private:
  bool watched() const { return active && endpoint_->mode() == Mode::kWatching; }
  void watch();
  void wake();
  Ring first_ring(std::uint32_t phase) const;
  bool create_queue_pair(rdma_cm_id* id);
  Control control() const;
  std::uint64_t control_bytes() const {
    return kControlBytes + first_ring_bytes() + (inlines_ ? 0 : kStageBytes);
  }
  void take_back_region(std::span<const std::byte> message, void* region);
  bool post_window_work(const Work& work);
  std::uint64_t first_ring_bytes() const;
  bool is_first_ring(std::uint32_t slots, std::uint32_t slot_bytes) const;
  /// For a block of so many bytes.
  bool charge(std::uint64_t bytes);
  void refund(std::uint64_t bytes);

  const std::shared_ptr<ContextObject> context_;
  const std::shared_ptr<const Settings> settings_;
  std::uint32_t index_ = 0;
  Life life_ = Life::kConnecting;
  bool lets_go_ = false;
  bool inlines_ = false;           ///< the device takes kInlineMost bytes from anywhere
  bool first_ring_taken_ = false;  ///< the receive ring behind the control block
  rdma_cm_id* id_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Block control_;
  ibv_mr* control_region_ = nullptr;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Dormant> dormant_;  ///< while it sleeps: then there is no endpoint
  std::uint64_t charged_ = 0;
  std::unique_ptr<std::string> error_;  ///< why it ended
};
/// There are thousands. With the counts of its shared pointer it takes 192 bytes of the heap.
static_assert(sizeof(ChannelObject) <= 168);

}  // namespace weft::channel
