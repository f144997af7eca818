// B2.2: two ends of a context with random work, some of which is refused or finds no buffer, over a
// network that loses, doubles and reorders frames. One that fails is repeated with the seed that it
// names.
#include <map>
#include <set>

#include "support/rd_end.h"
#include "unit/transport/random_pair.h"
#include "unit/transport/small_mtu.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kDatagramRuns = 1500;
constexpr std::uint64_t kMessages = 30;
constexpr std::uint32_t kSenders = 4, kSlot = 1024;

class DatagramTalk {
 public:
  explicit DatagramTalk(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < 2; ++i) {
      wires_[i] = std::make_unique<RandomWire>(random_, weather_);
      std::memset(ends_[i]->exposed_memory().data(), 0, 64);
    }
  }

  void run() {
    for (int step = 0; step < 200'000 && !done(); ++step) {
      do_something(random_.below(2));
      for (std::size_t i = 0; i < 2; ++i) check(i);
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(done()) << "it never came to an end: " << state();
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(arrived_[1 - i], wanted_[i]) << "lost, or twice";
      std::uint64_t sum = 0;
      std::memcpy(&sum, ends_[1 - i]->exposed_memory().data(), sizeof sum);
      EXPECT_EQ(sum, added_[i]);
    }
  }

 private:
  struct Told {
    CompletionStatus expected = CompletionStatus::kSuccess;
    bool is_message = false;
    std::uint64_t adds = 0;
  };

  std::string state() const {
    std::string text;
    for (std::size_t i = 0; i < 2; ++i) {
      text += "end " + std::to_string(i) + ": " + std::to_string(completed_[i]) + " of " +
              std::to_string(posted_[i]) + " completed, " + std::to_string(arrived_[1 - i].size()) +
              " of " + std::to_string(wanted_[i].size()) + " arrived, " +
              std::to_string(ends_[i]->failures) + " failures; ";
    }
    return text;
  }
  bool done() const {
    for (std::size_t i = 0; i < 2; ++i) {
      if (posted_[i] < kMessages || completed_[i] < kMessages) return false;
      if (arrived_[1 - i].size() < wanted_[i].size()) return false;
    }
    return true;
  }
  void post(std::size_t i) {
    RdEnd& me = *ends_[i];
    const std::uint64_t id = posted_[i]++;
    SendRequest request{.wr_id = id};
    request.destination_qkey = kEndKey;
    std::uint32_t length = static_cast<std::uint32_t>(8 + random_.below(kSlot - 8));
    const std::size_t at = id * kSlot;
    std::memcpy(me.memory().data() + at, &id, sizeof id);
    Told& told = told_[i].emplace_back();
    switch (random_.below(6)) {
      case 0:
        request.op = SendOp::kFetchAdd;
        request.operand = told.adds = 1 + random_.below(50);
        request.remote = ends_[1 - i]->remote();
        length = 8;
        break;
      case 1:
        request.op = SendOp::kRead;
        request.remote = ends_[1 - i]->remote(64);
        break;
      case 2:
        request.op = SendOp::kWrite;
        request.remote = ends_[1 - i]->remote(2048);
        request.remote.key = RemoteKey(request.remote.key.value ^ 3);
        told.expected = CompletionStatus::kRemoteAccessError;
        break;
      case 3:
        request.destination_qkey = QKey(1);
        told.expected = CompletionStatus::kRemoteInvalidRdRequest;
        break;
      default:
        told.is_message = true;
    }
    const auto sender = static_cast<std::uint32_t>(1 + random_.below(kSenders));
    if (told.is_message) wanted_[i].insert(id);
    sender_of_[i].push_back(sender);
    me.post(sender, request, me.sge(at, length));
  }
  void check(std::size_t i) {
    for (const Outcome& one : ends_[i]->take_outcomes()) {
      ASSERT_EQ(one.status, told_[i][one.wr_id].expected) << one.wr_id;
      ASSERT_TRUE(known_[i].insert(one.wr_id).second) << "completed twice";
      added_[i] += told_[i][one.wr_id].adds;
      ++completed_[i];
    }
    for (const Completion& got : ends_[i]->take_receives()) {
      ASSERT_TRUE(got.ok()) << to_string(got.status);
      std::uint64_t id = 0;
      std::memcpy(&id, ends_[i]->memory().data() + receive_at(got.wr_id), sizeof id);
      ASSERT_TRUE(arrived_[i].insert(id).second) << "message " << id << " came twice";
      const std::uint32_t sender = sender_of_[1 - i].at(id);
      ASSERT_EQ(got.source_qp.value, sender);
      auto& latest = latest_[i][sender];
      ASSERT_TRUE(latest == 0 || id + 1 > latest) << "out of order";
      latest = id + 1;
    }
  }
  static std::size_t receive_at(std::uint64_t i) { return (kMessages + i % 16) * kSlot; }
  void do_something(std::size_t i) {
    RdEnd& me = *ends_[i];
    switch (random_.below(9)) {
      case 0:
        if (posted_[i] < kMessages) post(i);
        return;
      case 1:
        if (me.qp.rq->posted() < 4) me.post_receive(buffers_[i], receive_at(buffers_[i]), kSlot);
        ++buffers_[i];
        return;
      case 2:
      case 3:
        if (auto frame = me.next_request()) wires_[i]->put(std::move(*frame));
        return;
      case 4:
        if (auto frame = me.next_answer()) wires_[i]->put(std::move(*frame));
        return;
      default:
        if (!wires_[i]->empty()) {
          ends_[1 - i]->deliver(wires_[i]->take());
        } else if (wires_[1 - i]->empty()) {
          pass_time();
        }
    }
  }
  void pass_time() {
    for (std::size_t k = 0; k < 2; ++k) {
      for (const Frame& frame : ends_[k]->answers()) wires_[k]->put(frame);
      for (const Frame& frame : ends_[k]->requests()) wires_[k]->put(frame);
    }
    if (!wires_[0]->empty() || !wires_[1]->empty()) return;
    const Nanoseconds due = std::min(ends_[0]->deadline(), ends_[1]->deadline());
    if (due == kNever) return;
    now_ = std::max(now_ + 1, due);
    for (const auto& end : ends_) end->advance_to(now_);
  }

  base::SeededRandom random_;
  const Weather weather_{static_cast<std::uint32_t>(random_.below(150'000)),
                         static_cast<std::uint32_t>(random_.below(200'000)), 1 + random_.below(8)};
  EndSetup setup_of(bool turned) {
    EndSetup setup;
    setup.attributes.path_mtu = Mtu::k256;
    setup.attributes.max_rd_atomic = setup.attributes.max_dest_rd_atomic = 3;
    setup.attributes.timeout = 2;
    setup.attributes.min_rnr_timer = 1;
    setup.attributes.send_psn = Psn(turned ? 0xFFFFF0 : 5);
    setup.attributes.receive_psn = Psn(turned ? 5 : 0xFFFFF0);
    return setup;
  }
  const bool windowed_ = random_.below(3) != 0;
  std::unique_ptr<RdEnd> ends_[2] = {
      std::make_unique<RdEnd>(setup_of(false), kContextHere, kContextThere, windowed_),
      std::make_unique<RdEnd>(setup_of(true), kContextThere, kContextHere, windowed_)};
  std::unique_ptr<RandomWire> wires_[2];
  std::uint64_t posted_[2] = {}, completed_[2] = {}, buffers_[2] = {}, added_[2] = {};
  std::vector<Told> told_[2];
  std::vector<std::uint32_t> sender_of_[2];
  std::set<std::uint64_t> wanted_[2], arrived_[2], known_[2];
  std::map<std::uint32_t, std::uint64_t> latest_[2];
  Nanoseconds now_ = 1'000;
};

TEST(RdPair, does_everything_once_and_in_order_over_a_bad_network) {
  // B2.2
  for (std::uint64_t seed = 1; seed <= kDatagramRuns; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DatagramTalk talk(seed);
    talk.run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::test
