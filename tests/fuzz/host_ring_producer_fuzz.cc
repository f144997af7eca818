// A hostile consumer against the producer of a ring: any head, any bytes in the records. Whatever
// comes, each record comes back at most once, in the order in which it was published, with its own
// owner, cookie and length; nothing is written outside the ring; a broken ring stays broken.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <deque>

#include "base/assert.h"
#include "host/ring.h"
#include "support/byte_feed.h"

namespace weft::test {
namespace {

using host::kLine;

struct Published {
  void* owner;
  std::uint32_t cookie;
  std::uint32_t lines;
};

class Drill {
 public:
  explicit Drill(ByteFeed& feed) : feed_(feed) {}

  void run() {
    for (int i = 0; i < 300 && !feed_.empty(); ++i) step();
    // Nobody who still waits is left out when the consumer is declared dead.
    std::size_t waiting = 0, told = 0;
    for (const Published& each : published_) waiting += each.owner != nullptr ? 1 : 0;
    producer_.for_each_pending([&](void*) { ++told; });
    WEFT_ASSERT(waiting == told);
  }

 private:
  void step() {
    switch (feed_.below(8)) {
      case 0:
      case 1:
      case 2:
        return publish(1 + feed_.below(40));
      case 3:
        return set_head();
      case 4:
        return scribble();
      case 5:
        return forget();
      default:
        return collect();
    }
  }

  void publish(std::uint32_t most) {
    const std::uint32_t sizes[] = {0, 8, 24, 25, 500, 4096, producer_.max_payload(), 100};
    const std::uint32_t bytes = feed_.pick(sizes);
    for (std::uint32_t i = 0; i < most; ++i) {
      if (bytes > producer_.max_payload()) return;
      host::Record* record = producer_.reserve(bytes);
      if (record == nullptr) return;
      host::RecordHeader header;
      header.kind = std::uint8_t(host::RecordKind::kFirstOfUser);
      std::memset(reinterpret_cast<std::byte*>(record) + host::kRecordPayloadAt, 0xFF, bytes);
      void* owner = &owners_[feed_.below(3)];
      producer_.publish(header, {owner, ++cookie_, is_awaited(cookie_)});
      WEFT_ASSERT(record->status == 0);
      published_.push_back({owner, cookie_, host::lines_for(bytes)});
      tail_ += host::lines_for(bytes) * kLine;
    }
  }

  void set_head() {
    const std::uint64_t lies[] = {0,
                                  tail_,
                                  collected_ + kLine,
                                  collected_ + 2 * kLine,
                                  collected_ + feed_.below(64),
                                  collected_ - kLine,
                                  tail_ + (1 << 20),
                                  std::uint64_t{feed_.word()} << 32 | feed_.word()};
    head().store(feed_.pick(lies));
  }
  /// An honest one: everything that can be seen so far. The pads are counted as well.
  void scribble() {
    const std::size_t at = feed_.word() % (host::kFirstRingBytes - 8);
    const std::uint32_t word = feed_.word();
    std::memcpy(enemy_.data() + host::kRingControlBytes + at, &word, sizeof word);
  }
  void forget() {
    void* owner = &owners_[feed_.below(3)];
    producer_.forget(owner);
    for (Published& each : published_) {
      if (each.owner == owner) each.owner = nullptr;
    }
  }
  static bool is_awaited(std::uint32_t cookie) { return cookie % 5 == 0; }
  void follow(const host::RingProducer::Answered& first) {
    const std::uint8_t most = std::uint8_t(feed_.below(8));
    const std::uint8_t count = producer_.pop_followers(first, most);
    WEFT_ASSERT(count <= most && (count == 0 || first.lines == 1));
    for (std::uint8_t i = 1; i <= count; ++i) {
      WEFT_ASSERT(!published_.empty());
      const Published& next = published_.front();
      WEFT_ASSERT(next.owner == first.owner && next.cookie == first.cookie + i && next.lines == 1 &&
                  !is_awaited(next.cookie));
      published_.pop_front();
      collected_ += kLine;
    }
  }
  void collect() {
    host::RingProducer::Answered answered;
    // A pad, or a growth, has no owner and no cookie; there is at most one between two records.
    for (std::size_t i = 0; i < 2000 && producer_.peek(&answered); ++i) {
      WEFT_ASSERT(!was_broken_);
      const auto at = reinterpret_cast<std::byte*>(answered.record);
      static_cast<void>(*static_cast<volatile std::byte*>(at));
      static_cast<void>(*static_cast<volatile std::byte*>(at + answered.lines * kLine - 1));
      if (answered.cookie != 0) {
        WEFT_ASSERT(!published_.empty());
        const Published& oldest = published_.front();
        WEFT_ASSERT(answered.owner == oldest.owner && answered.cookie == oldest.cookie &&
                    answered.lines == oldest.lines &&
                    answered.awaited == is_awaited(answered.cookie));
        published_.pop_front();
        if (answered.owner != nullptr) follow(answered);
      } else {
        WEFT_ASSERT(answered.owner == nullptr);
        tail_ += answered.lines * kLine;
      }
      collected_ += answered.lines * kLine;
      producer_.pop();
    }
    was_broken_ = was_broken_ || producer_.broken();
    WEFT_ASSERT(was_broken_ == producer_.broken());
  }

  std::atomic<std::uint64_t>& head() {
    return reinterpret_cast<host::RingControl*>(enemy_.data())->head;
  }

  ByteFeed& feed_;
  host::RingProducer producer_ = host::RingProducer::create().value();
  host::SharedMemory enemy_ =
      host::SharedMemory::receive(dup(producer_.fd()), host::kRingMemoryBytes,
                                  host::kRingMemoryBytes, host::SharedMemory::Peers::kWrite)
          .value();
  int owners_[3] = {};
  std::deque<Published> published_;
  std::uint32_t cookie_ = 0;
  std::uint64_t tail_ = 0, collected_ = 0;  ///< without pads that have not come back
  bool was_broken_ = false;
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::test::ByteFeed feed({data, size});
  weft::test::Drill(feed).run();
  return 0;
}
