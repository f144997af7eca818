// Cases of many messages and many channels.
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "system/channel_case_kit.h"

namespace weft::test {
namespace {

void a_channel_is_named_once_however_much_arrives() {
  Two two;
  auto [a, b] = two.open();
  b.set_tag(7);
  for (int i = 0; i < 50; ++i) {
    HOLDS(pass(two, a, b, "one of many") == "one of many");
    HOLDS(!must(b.try_receive()));  // from now on it may be named again
  }
  const auto named = two.there.take_ready();
  HOLDS(named.size() == 1 && named[0] == 7);
  HOLDS(two.there.take_ready().empty());
}

/// What was made in advance, and what waited to be freed, is gone after a while.
void growing_leaves_no_memory_behind() {
  Two two;
  Settings settings;
  settings.shrink_after_ns = 1'000'000;
  auto [a, b] = two.open(settings);
  const auto used = [&two] {
    return two.here.figures().used_bytes + two.there.figures().used_bytes;
  };
  const std::uint64_t before = used();
  HOLDS(pass(two, a, b, std::string(12000, 'x')) == std::string(12000, 'x'));
  HOLDS(used() > before);
  const auto deadline = channel::in(10s);
  while (used() != before) {
    two.here.progress();
    two.there.progress();
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(a.statistics().send_phase == 0 && a.statistics().shrinks == 1);
}

void small_messages_travel_in_batches() {
  Two two;
  auto [a, b] = two.open();
  constexpr std::size_t kCount = 10'000;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < kCount; ++i) {
    // One in a hundred does not fit the small buffers, one is read in place.
    const std::size_t bytes = i == 5000 ? 100'000 : i % 100 == 99 ? 3000 : 1 + i % 40;
    texts.emplace_back(bytes, static_cast<char>('a' + i % 26));
  }
  std::vector<iovec> rest;
  for (std::string& text : texts) rest.push_back({text.data(), text.size()});
  std::span<iovec> left(rest);
  channel::Batch batch;
  const auto deadline = channel::in(20s);
  for (std::size_t got = 0; got < kCount;) {
    const auto taken = must(a.try_send_batch(left.first(std::min<std::size_t>(left.size(), 100))));
    left = left.subspan(taken.messages);
    if (taken.bytes > 0) {
      left[0].iov_base = static_cast<char*>(left[0].iov_base) + taken.bytes;
      left[0].iov_len -= taken.bytes;
    }
    two.here.progress();
    const std::size_t n = must(b.try_receive_batch(batch));
    for (std::size_t i = 0; i < n; ++i, ++got) {
      HOLDS(batch[i].size() == texts[got].size());
      HOLDS(std::memcmp(batch[i].data(), texts[got].data(), texts[got].size()) == 0);
    }
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  const auto sent = a.statistics();
  HOLDS(sent.messages_sent == kCount);
  HOLDS(sent.frames_sent < kCount / 2);  // that is what batches are for
}

void a_batch_outlives_its_channel() {
  Two two;
  channel::Batch batch;
  {
    auto [a, b] = two.open();
    must(a.send("still here", channel::in(5s)));
    const auto deadline = channel::in(5s);
    while (must(b.try_receive_batch(batch)) == 0) {
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
  }
  HOLDS(batch.size() == 1);
  HOLDS(std::memcmp(batch[0].data(), "still here", 10) == 0);
}

/// The peer is killed before it reads: the memory is the caller's again, and no key is open.
void what_was_lent_to_the_dead_comes_back() {
  PeerProcess peer([](Channel channel) {
    must(channel.send("ready", channel::in(5s)));
    for (;;) pause();
  });
  Channel& channel = *peer.channel;
  HOLDS(must(channel.receive(channel::in(10s))).text() == "ready");
  const std::vector<std::byte> message(1'000'000);
  const std::uint32_t loan = must(channel.try_lend(message));
  HOLDS(loan != 0);
  HOLDS(!channel.returned(loan));
  kill(peer.pid, SIGKILL);
  waitpid(peer.pid, nullptr, 0);
  const auto deadline = channel::in(10s);
  while (!channel.returned(loan)) HOLDS(std::chrono::steady_clock::now() < deadline);
  HOLDS(!channel.connected());
}

/// The smaller version of ten thousand connections, one in a hundred busy.
void many_quiet_channels_stay_small() {
  constexpr int kCount = 500;
  Two two;
  std::vector<std::pair<Channel, Channel>> channels;
  for (int i = 0; i < kCount; ++i) channels.push_back(two.open());
  const std::uint64_t quiet = channels[1].first.statistics().registered_bytes;
  const std::string text(16384, 'x');
  for (int i = 0; i < kCount; i += 100) {
    HOLDS(pass(two, channels[i].first, channels[i].second, text) == text);
  }
  const std::uint64_t used = two.here.figures().used_bytes + two.there.figures().used_bytes;
  for (int i = 0; i < kCount; ++i) {
    const auto one = channels[i].first.statistics(), other = channels[i].second.statistics();
    HOLDS(one.send_phase == (i % 100 == 0 ? 1u : 0u));
    HOLDS(i % 100 == 0 || (one.registered_bytes == quiet && other.registered_bytes == quiet));
  }
  std::printf("%d channels, 1 %% busy: %zu KiB of buffers\n", kCount, std::size_t{used} / 1024);
  HOLDS(used <= kCount * 2 * quiet + kCount / 100 * 3 * 2 * (quiet + 70'000));
}

}  // namespace

const Cases kLoadCases{
    {"a_channel_is_named_once_however_much_arrives", a_channel_is_named_once_however_much_arrives},
    {"growing_leaves_no_memory_behind", growing_leaves_no_memory_behind},
    {"small_messages_travel_in_batches", small_messages_travel_in_batches},
    {"a_batch_outlives_its_channel", a_batch_outlives_its_channel},
    {"many_quiet_channels_stay_small", many_quiet_channels_stay_small},
    {"what_was_lent_to_the_dead_comes_back", what_was_lent_to_the_dead_comes_back},
};

}  // namespace weft::test
