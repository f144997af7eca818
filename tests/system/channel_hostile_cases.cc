// Cases of a peer that speaks the protocol of channels by hand and keeps to none of its rules: see
// channel_cases.cc. It is a process of its own, over librdmacm and libibverbs.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "channel/endpoint.h"
#include "system/channel_case_kit.h"

namespace weft::test {
namespace {

using channel::Hello;
using channel::Kind;

/// A connection to a listener of channels, and some memory.
class Liar {
 public:
  explicit Liar(std::uint16_t port) {
    HOLDS(rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_TCP) == 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    HOLDS(inet_pton(AF_INET, own_address().c_str(), &to.sin_addr) == 1);
    HOLDS(rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&to), 5000) == 0);
    HOLDS(rdma_resolve_route(id_, 5000) == 0);
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 64;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    cq_ = ibv_create_cq(id_->verbs, 64, nullptr, nullptr, 0);
    HOLDS(cq_ != nullptr);
    attributes.send_cq = attributes.recv_cq = cq_;
    HOLDS(rdma_create_qp(id_, nullptr, &attributes) == 0);
    region_ = ibv_reg_mr(id_->pd, memory_.data(), memory_.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    HOLDS(region_ != nullptr);
    Hello mine;
    mine.control = reinterpret_cast<std::uint64_t>(memory_.data());
    mine.control_key = RemoteKey(region_->rkey);
    mine.ring = {mine.control + 4096, RemoteKey(region_->rkey), 4, 512};
    mine.send_slots = 4;
    std::array<std::byte, Hello::kBytes> bytes;
    mine.emit(bytes);
    rdma_conn_param with{};
    with.private_data = bytes.data();
    with.private_data_len = bytes.size();
    with.responder_resources = with.initiator_depth = 1;
    with.retry_count = with.rnr_retry_count = 7;
    HOLDS(rdma_connect(id_, &with) == 0);
    const auto& came = id_->event->param.conn;
    const auto hello =
        Hello::parse({static_cast<const std::byte*>(came.private_data), came.private_data_len});
    HOLDS(hello.has_value());
    peer_ = *hello;
  }
  ~Liar() {
    rdma_destroy_qp(id_);
    ibv_destroy_cq(cq_);
    ibv_dereg_mr(region_);
    rdma_destroy_id(id_);
  }

  std::uint32_t slots() const { return peer_.ring.slots; }
  /// The next frame, which holds one message; gives whether it could be written.
  bool frame(std::uint64_t message) {
    std::byte* at = begin_frame();
    channel::store(at, channel::record_word(Kind::kWhole, sizeof message));
    channel::store(at + channel::kRecordBytes, message);
    return end_frame(at + 16, channel::kPlain);
  }
  /// The next frame, which offers so many messages to be read.
  bool offers(std::uint32_t count) {
    std::byte* at = begin_frame();
    for (; count > 0; --count) {
      const std::uint64_t here = reinterpret_cast<std::uint64_t>(memory_.data());
      channel::store(at, channel::record_word(Kind::kOffer, sizeof(channel::Offer)));
      channel::store(at + channel::kRecordBytes,
                     channel::Offer{here, 8, 8, region_->rkey, ++offers_});
      at += channel::kRecordBytes + sizeof(channel::Offer);
    }
    return end_frame(at, 0);
  }
  /// The peer need not ring, for which there would have to be a buffer here.
  bool says_that_it_looks() {
    const channel::Status status{.mode = static_cast<std::uint32_t>(channel::Mode::kWatching)};
    channel::store(memory_.data() + kFrame, status);
    return post(IBV_WR_RDMA_WRITE, memory_.data() + kFrame, sizeof status,
                peer_.control + channel::kStatusOffset, peer_.control_key);
  }
  /// The next frame, which asks for a ring of the usual large phase.
  bool asks(bool strict) {
    std::byte* at = begin_frame();
    const channel::Move move{0, 1, channel::slot_bytes_of(16384), 4, kRequest, strict ? 1u : 0u};
    channel::store(at, channel::record_word(Kind::kMove, sizeof move));
    channel::store(at + channel::kRecordBytes, move);
    return end_frame(at + channel::kRecordBytes + sizeof move, 0);
  }
  /// The ring that was granted, once the answer is there.
  bool granted() {
    channel::Acknowledgement answer;
    const channel::AcknowledgementSlot slot(memory_.data() + channel::kAcknowledgementOffset,
                                            channel::kAcknowledgementBytes);
    if (look(slot, kRequest, answer) != channel::Found::kAnswer) return false;
    HOLDS(answer.verdict == channel::Verdict::kGranted);
    return true;
  }
  /// The next frame, which says that it is the last in its ring.
  bool leaves() {
    std::byte* at = begin_frame();
    channel::store(at, channel::record_word(Kind::kLast, 0));
    return end_frame(at + channel::kRecordBytes, 0);
  }
  /// Writes by the key of the first ring, as if it still had it.
  ibv_wc_status writes_by_the_old_key() {
    post(IBV_WR_RDMA_WRITE, memory_.data(), 8, peer_.ring.address);
    return status_;
  }
  const Hello& peer() const { return peer_; }
  /// Eight bytes to anywhere, by any key; gives whether that was allowed.
  bool write_to(std::uint64_t address, RemoteKey key) {
    channel::store(memory_.data(), std::uint64_t{0});
    return post(IBV_WR_RDMA_WRITE, memory_.data(), 8, address, key);
  }
  /// A message with bytes, for which nobody has a buffer.
  bool message() { return post(IBV_WR_SEND, memory_.data(), 8, 0); }

 private:
  std::byte* begin_frame() {
    channel::store(memory_.data() + kFrame, channel::word_of(channel::tag_of(next_), 0));
    return memory_.data() + kFrame + channel::kHeadBytes;
  }
  bool end_frame(std::byte* end, std::uint32_t plain) {
    std::byte* frame = memory_.data() + kFrame;
    const auto length = static_cast<std::uint32_t>(end - frame) + channel::kTailBytes;
    channel::store(end, channel::word_of(length | plain, channel::tag_of(next_)));
    const std::uint32_t slot = next_++ % peer_.ring.slots;
    return post(IBV_WR_RDMA_WRITE_WITH_IMM, frame, length,
                peer_.ring.address + std::uint64_t{slot + 1} * peer_.ring.slot_bytes - length);
  }
  bool post(ibv_wr_opcode opcode, std::byte* from, std::uint32_t length, std::uint64_t to) {
    return post(opcode, from, length, to, peer_.ring.key);
  }
  bool post(ibv_wr_opcode opcode, std::byte* from, std::uint32_t length, std::uint64_t to,
            RemoteKey key) {
    ibv_sge element{reinterpret_cast<std::uint64_t>(from), length, region_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = key.value;
    if (ibv_post_send(id_->qp, &wr, &bad) != 0) return false;
    ibv_wc wc{};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
    }
    status_ = wc.status;
    return wc.status == IBV_WC_SUCCESS;
  }

  rdma_cm_id* id_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<std::byte> memory_ = std::vector<std::byte>(8192);
  Hello peer_;
  ibv_wc_status status_ = IBV_WC_SUCCESS;
  static constexpr std::size_t kFrame = 2048;  // where frames are made
  static constexpr std::uint32_t kRequest = channel::first_of_next_request(0);
  std::uint32_t next_ = 0, offers_ = 0;
};

/// A process that attacks a listener, started before this one has opened a device, which a child
/// could not use. It ends well if its attack ended as it should.
class LiarProcess {
 public:
  template <class Attack>
  explicit LiarProcess(Attack attack) {
    HOLDS(pipe(go_) == 0);
    pid_ = fork();
    HOLDS(pid_ >= 0);
    if (pid_ > 0) return;
    alarm(55);
    std::uint16_t port = 0;
    HOLDS(read(go_[0], &port, sizeof port) == sizeof port);
    attack(port);
    _exit(0);
  }
  void begin(std::uint16_t port) { HOLDS(write(go_[1], &port, sizeof port) == sizeof port); }
  bool ends_well() const {
    int status = 0;
    HOLDS(waitpid(pid_, &status, 0) == pid_);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  void kill() const {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  int go_[2];
  pid_t pid_ = 0;
};

void a_peer_that_overruns_its_slots_is_cut_off() {
  int held_by_peer[2];
  HOLDS(pipe(held_by_peer) == 0);
  LiarProcess liar([&held_by_peer](std::uint16_t port) {
    Liar attack(port);
    const std::uint32_t slots = attack.slots();
    for (std::uint32_t i = 0; i < slots; ++i) HOLDS(attack.frame(100 + i));
    char held = 0;
    HOLDS(read(held_by_peer[0], &held, 1) == 1);
    attack.frame(666);  // over the first, which is still looked at
    while (attack.writes_by_the_old_key() == IBV_WC_SUCCESS) {  // where no frame lies
    }
  });
  Context context = must(Context::create({}));
  auto listener = must(context.listen(own_address(), 0));
  liar.begin(listener.port());
  Channel channel = must(listener.accept(channel::in(10s)));
  channel::Message held = must(channel.receive(channel::in(10s)));
  HOLDS(write(held_by_peer[1], "x", 1) == 1);
  const auto deadline = channel::in(20s);
  for (;;) {
    auto next = channel.receive(deadline);
    if (next) continue;
    HOLDS(next.error().message == "the peer writes more frames than it was given slots");
    break;
  }
  HOLDS(!channel.connected());
  HOLDS(liar.ends_well());  // it could not go on writing
  HOLDS(held.bytes().size() == 8);
  must(channel.close(channel::in(1s)));
  HOLDS(held.bytes()[0] != std::byte{0});  // until the view goes its memory stays
}

void peers_that_send_what_has_no_buffer_take_nobodys_bells() {
  constexpr int kAttacks = 1100;  // more than there are bells
  LiarProcess liar([](std::uint16_t port) {
    for (int i = 0; i < kAttacks; ++i) {
      Liar attack(port);
      HOLDS(!attack.message());
    }
    Liar honest(port);
    HOLDS(honest.frame(1));  // with a bell
    pause();
  });
  Context context = must(Context::create({}));
  auto listener = must(context.listen(own_address(), 0));
  liar.begin(listener.port());
  const auto deadline = channel::in(50s);
  std::vector<Channel> channels;
  for (bool received = false; !received;) {
    context.progress();
    if (auto channel = listener.try_accept()) channels.push_back(std::move(*channel));
    std::erase_if(channels, [&](Channel& channel) {
      auto message = channel.try_receive();
      if (message && *message) received = true;
      return !message;
    });
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  liar.kill();
}

/// More reads than a completion queue for the usual traffic has room for.
void peers_that_offer_all_that_they_may_lose_nobodys_completions() {
  constexpr int kPeers = 320, kFrames = 2, kOffersAFrame = 8;
  int written[2];
  HOLDS(pipe(written) == 0);
  LiarProcess liar([&written](std::uint16_t port) {
    std::vector<std::unique_ptr<Liar>> peers;
    for (int i = 0; i < kPeers; ++i) peers.push_back(std::make_unique<Liar>(port));
    for (auto& peer : peers) {
      for (int i = 0; i < kFrames; ++i) HOLDS(peer->offers(kOffersAFrame));
    }
    HOLDS(write(written[1], "x", 1) == 1);
    pause();
  });
  Context context = must(Context::create({}));
  auto listener = must(context.listen(own_address(), 0));
  liar.begin(listener.port());
  const auto deadline = channel::in(50s);
  std::vector<Channel> channels;
  while (channels.size() < kPeers) {
    if (auto channel = listener.try_accept()) channels.push_back(std::move(*channel));
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  char all = 0;
  HOLDS(read(written[0], &all, 1) == 1);
  for (int i = 0; i < 100; ++i) context.progress();  // they are read, and nobody takes them
  for (int received = 0; received < kPeers * kFrames * kOffersAFrame;) {
    context.progress();
    for (Channel& channel : channels) {
      while (must(channel.try_receive())) ++received;
    }
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  liar.kill();
}

/// After growth the key of the ring that was left is dead: in strict mode with the answer,
/// otherwise as soon as the receiver has time.
void see_an_old_key_refused(bool strict) {
  LiarProcess liar([strict](std::uint16_t port) {
    Liar peer(port);
    HOLDS(peer.writes_by_the_old_key() == IBV_WC_SUCCESS);  // as long as it is the one
    HOLDS(peer.says_that_it_looks() && peer.asks(strict));
    while (!peer.granted()) {
    }
    if (!strict) HOLDS(peer.leaves());
    ibv_wc_status status = peer.writes_by_the_old_key();
    while (!strict && status == IBV_WC_SUCCESS) status = peer.writes_by_the_old_key();
    HOLDS(status == IBV_WC_REM_ACCESS_ERR);
  });
  ContextOptions options;
  options.settings.strict = strict;
  Context context = must(Context::create(options));
  auto listener = must(context.listen(own_address(), 0));
  liar.begin(listener.port());
  Channel channel = must(listener.accept(channel::in(10s)));
  const auto deadline = channel::in(20s);
  while (channel.try_receive()) HOLDS(std::chrono::steady_clock::now() < deadline);
  HOLDS(liar.ends_well());
  HOLDS(channel.statistics().receive_phase == 1);
}

void an_old_key_is_refused() { see_an_old_key_refused(false); }
void a_strict_receivers_old_key_is_refused() { see_an_old_key_refused(true); }

/// Each connection has rings of its own, and what opens one opens no other.
void a_key_of_one_connection_opens_no_other() {
  constexpr int kQuiet = 20;
  int done[2];
  HOLDS(pipe(done) == 0);
  LiarProcess liar([&done](std::uint16_t port) {
    std::vector<std::unique_ptr<Liar>> quiet;
    for (int i = 0; i < kQuiet; ++i) quiet.push_back(std::make_unique<Liar>(port));
    const auto end = [](const channel::RemoteRing& ring) {
      return ring.address + std::uint64_t{ring.slots} * ring.slot_bytes;
    };
    for (const auto& a : quiet) {
      for (const auto& b : quiet) {
        const channel::RemoteRing &one = a->peer().ring, &other = b->peer().ring;
        HOLDS(a == b || end(one) <= other.address || end(other) <= one.address);
        HOLDS(a == b || one.key != other.key);
      }
    }
    const Hello& victim = quiet[0]->peer();
    // Each attempt ends its connection: there is one for each.
    const auto refused = [port](auto address, auto key) {
      Liar attack(port);
      HOLDS(attack.write_to(attack.peer().ring.address, attack.peer().ring.key));
      return !attack.write_to(address(attack.peer()), key(attack.peer()));
    };
    const auto own_ring = [](const Hello& own) { return own.ring.key; };
    const auto own_control = [](const Hello& own) { return own.control_key; };
    HOLDS(refused([&](const Hello&) { return victim.ring.address; }, own_ring));
    HOLDS(refused([&](const Hello&) { return victim.ring.address; }, own_control));
    HOLDS(refused([&](const Hello&) { return victim.control; }, own_ring));
    HOLDS(refused([&](const Hello&) { return victim.control; }, own_control));
    HOLDS(refused([&](const Hello& own) { return end(own.ring) - 4; }, own_ring));
    HOLDS(refused([&](const Hello& own) { return own.ring.address - 4; }, own_ring));
    HOLDS(quiet[0]->frame(7));
    HOLDS(write(done[1], "x", 1) == 1);
    pause();
  });
  Context context = must(Context::create({}));
  auto listener = must(context.listen(own_address(), 0));
  liar.begin(listener.port());
  std::vector<Channel> channels;
  const auto deadline = channel::in(50s);
  for (int received = 0; received == 0;) {
    context.progress();
    if (auto channel = listener.try_accept()) channels.push_back(std::move(*channel));
    for (std::size_t i = 0; i < channels.size() && i < kQuiet; ++i) {
      const auto message = must(channels[i].try_receive());
      received += message ? 1 : 0;
    }
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  liar.kill();
}

}  // namespace

const Cases kHostileCases{
    {"an_old_key_is_refused", an_old_key_is_refused},
    {"a_strict_receivers_old_key_is_refused", a_strict_receivers_old_key_is_refused},
    {"a_key_of_one_connection_opens_no_other", a_key_of_one_connection_opens_no_other},
    {"a_peer_that_overruns_its_slots_is_cut_off", a_peer_that_overruns_its_slots_is_cut_off},
    {"peers_that_send_what_has_no_buffer_take_nobodys_bells",
     peers_that_send_what_has_no_buffer_take_nobodys_bells},
    {"peers_that_offer_all_that_they_may_lose_nobodys_completions",
     peers_that_offer_all_that_they_may_lose_nobodys_completions},
};

}  // namespace weft::test
