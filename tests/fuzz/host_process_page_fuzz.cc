// The page of a hostile neighbour: any bytes. Its readers never crash and look only at the slots
// that there are: a word is in flight exactly when one of those holds it.
#include <linux/futex.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "host/process_page.h"
#include "support/byte_feed.h"

namespace weft::test {
namespace {

using host::ProcessPageLayout;

struct Page {
  host::SharedMemory memory =
      host::SharedMemory::create("weft-fuzz", host::kProcessPageBytes, host::kProcessPageBytes,
                                 host::SharedMemory::Peers::kRead)
          .value();
  ProcessPageLayout& layout() const { return *reinterpret_cast<ProcessPageLayout*>(memory.data()); }
};

std::uint64_t any_word(ByteFeed& feed) {
  const std::uint64_t words[] = {0, host::flight_word(1, false, 1), host::flight_word(1, true, 1),
                                 ~std::uint64_t{0}, feed.word()};
  return feed.pick(words);
}

void check(const host::ProcessView& view, const ProcessPageLayout& page, std::uint64_t word) {
  const std::uint32_t count = std::min(page.flight_count.load(), host::kMaxFlightThreads);
  bool there = false, at_its_owner = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const auto& held : page.flights[i].words) {
      there = there || held.load() == word;
      at_its_owner = at_its_owner || held.load() >> 32 == word >> 32;
    }
  }
  WEFT_ASSERT(view.in_flight(word) == there);
  const auto tag = static_cast<std::uint32_t>(word >> 32);
  WEFT_ASSERT(tag == 0 || view.in_flight_at(tag) == at_its_owner);
  WEFT_ASSERT(view.closed_to_copies() == (page.closed.load() != 0));
  WEFT_ASSERT(view.wake_request() == (page.wake_request.load() & ~host::kAsksForFence));
  const auto lock = static_cast<unsigned>(page.alive.__data.__lock);
  WEFT_ASSERT(view.alive() == ((lock & FUTEX_TID_MASK) != 0 && (lock & FUTEX_OWNER_DIED) == 0));
  static_cast<void>(view.cannot_membarrier());
}

void drill(ByteFeed& feed, const Page& page) {
  ProcessPageLayout& layout = page.layout();
  std::memset(page.memory.data(), 0, page.memory.size());
  layout.magic = feed.below(8) == 0 ? feed.word() : ProcessPageLayout::kMagic;
  const auto view = host::ProcessView::receive(dup(page.memory.fd()));
  WEFT_ASSERT(view.has_value() == (layout.magic == ProcessPageLayout::kMagic));
  if (!view) return;
  for (int i = 0; i < 50 && !feed.empty(); ++i) {
    switch (feed.below(6)) {
      case 0: {
        const std::uint32_t counts[] = {
            0, 1, 2, host::kMaxFlightThreads, host::kMaxFlightThreads + 1, 0xFFFFFFFF};
        layout.flight_count.store(feed.pick(counts));
        break;
      }
      case 1: {
        const std::uint32_t slots[] = {0, 1, 2, 500, host::kMaxFlightThreads - 1};
        layout.flights[feed.pick(slots)].words[feed.below(2)].store(any_word(feed));
        break;
      }
      case 2:
        layout.alive.__data.__lock = static_cast<int>(feed.word());
        break;
      case 3:  // anywhere
        page.memory.data()[feed.word() % page.memory.size()] = std::byte{feed.byte()};
        break;
      default:
        check(*view, layout, any_word(feed));
    }
  }
}

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const weft::test::Page page;
  weft::test::ByteFeed feed({data, size});
  weft::test::drill(feed, page);
  return 0;
}
