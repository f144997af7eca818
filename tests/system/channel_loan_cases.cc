// Messages that are read where they are, and memory that is taken back: cases of channel_cases.cc.
#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <vector>

#include "system/channel_case_kit.h"

namespace weft::test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The next message, while both ends are looked after.
std::string next(Two& two, Channel& channel) {
  for (const auto deadline = channel::in(10s);;) {
    two.here.progress();
    two.there.progress();
    if (auto message = must(channel.try_receive())) return std::string(message->text());
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
}

/// Until both have nothing under way any more.
void settle(Two& two) {
  for (int i = 0; i < 1000; ++i) two.here.progress(), two.there.progress();
}

void windows_are_closed_by_either_end() {
  Two two;
  for (const auto end : {channel::LoanEnd::kSenderCloses, channel::LoanEnd::kPeerCloses}) {
    Settings settings;
    settings.loan_end = end;
    auto [a, b] = two.open(settings);
    for (char c = 'a'; c <= 'z'; ++c) {
      const std::string text(100'000 + c * 1000, c);
      HOLDS(pass(two, a, b, text) == text);
    }
    // Several at one time.
    std::vector<std::string> texts;
    std::vector<std::uint32_t> loans;
    for (char c = 'a'; c < 'd'; ++c) {
      texts.emplace_back(70'000, c);
      loans.push_back(0);
    }
    std::size_t lent = 0, got = 0;
    for (const auto deadline = channel::in(10s); got < texts.size();) {
      if (lent < texts.size()) {
        loans[lent] = must(a.try_lend(bytes_of(texts[lent])));
        if (loans[lent] != 0) ++lent;
      }
      two.here.progress();
      if (auto message = must(b.try_receive())) HOLDS(message->text() == texts[got++]);
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
    settle(two);
    for (const std::uint32_t loan : loans) HOLDS(a.returned(loan));
    HOLDS(a.statistics().rendezvous >= 26 + texts.size());
  }
}

void a_loan_can_be_taken_back() {
  Two two;
  auto [a, b] = two.open();
  std::string text(300'000, 'x');
  // Nobody is there to answer: the key is closed all the same, and the peer finds that out.
  const std::uint32_t unread = must(a.try_lend(bytes_of(text)));
  HOLDS(unread != 0);
  HOLDS(must(a.cancel(unread, channel::in(1ms))));
  HOLDS(a.returned(unread));
  std::memset(text.data(), 'y', text.size());
  const iovec small{text.data(), 5};
  HOLDS(must(a.try_send({&small, 1})) == 5);
  HOLDS(next(two, b) == "yyyyy");
  // What was read is not taken back.
  const std::uint32_t read = must(a.try_lend(bytes_of(text)));
  HOLDS(next(two, b) == text);
  settle(two);
  HOLDS(!must(a.cancel(read)));
  HOLDS(a.connected() && b.connected());
}

/// The peer stands still while a large message waits to be read. The call ends with its deadline,
/// and the memory is the caller's: whatever it writes there, the peer never sees.
void a_send_that_times_out_takes_its_memory_back() {
  PeerProcess peer([](Channel channel) {
    // Sends back what comes, its first bytes at least. It never sleeps: what has to wake it would
    // wait with it, and the recall behind that.
    for (const auto limit = channel::in(20s); std::chrono::steady_clock::now() < limit;) {
      const auto message = must(channel.try_receive());
      if (!message) continue;
      must(channel.send(message->bytes().first(std::min<std::size_t>(message->size(), 8)),
                        channel::in(5s)));
      if (message->text() == "end") _exit(0);
    }
    _exit(1);
  });
  const pid_t child = peer.pid;
  Channel& channel = *peer.channel;
  const auto echo = [&](const std::string& text) {
    must(channel.send(text, channel::in(5s)));
    return std::string(must(channel.receive(channel::in(5s))).text());
  };
  HOLDS(echo("first") == "first");
  // Until the child has nothing more to do.
  for (const auto quiet = channel::in(50ms); std::chrono::steady_clock::now() < quiet;) {
    peer.context->progress();
  }
  HOLDS(kill(child, SIGSTOP) == 0);
  int status = 0;
  HOLDS(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  std::string large(300'000, 'l');
  const auto late = channel.send(large, channel::in(20ms));
  HOLDS(!late && late.error().code == Errc::kTimedOut);
  std::memset(large.data(), 'w', large.size());
  HOLDS(kill(child, SIGCONT) == 0);
  HOLDS(echo("second") == "second");
  HOLDS(echo(large) == "wwwwwwww");
  HOLDS(echo("end") == "end");
  HOLDS(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

const Cases kLoanCases{
    {"windows_are_closed_by_either_end", windows_are_closed_by_either_end},
    {"a_loan_can_be_taken_back", a_loan_can_be_taken_back},
    {"a_send_that_times_out_takes_its_memory_back", a_send_that_times_out_takes_its_memory_back},
};

}  // namespace weft::test
