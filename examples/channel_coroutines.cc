// Coroutines over channels: one that listens, one for each peer that came, and three that ask. All
// of them in one thread, each written as if it were alone.
#include <weft/channel_loop.h>

#include <cstdio>

using namespace std::chrono_literals;
using weft::channel::Channel;
using weft::channel::Listener;
using weft::channel::Loop;
using weft::channel::Task;

constexpr int kAskers = 3;

Task echo(Loop& loop, Channel peer) {
  while (auto message = co_await loop.receive(peer)) {
    if (!co_await loop.send(peer, message->bytes())) break;
  }
}

Task serve(Loop& loop, Listener& listener) {
  for (int i = 0; i < kAskers; ++i) loop.spawn(echo(loop, co_await loop.accept(listener)));
}

void complain(const weft::Error& error) { std::fprintf(stderr, "%s\n", error.message.c_str()); }

Task ask(Loop& loop, std::uint16_t port, std::string question) {
  auto peer = co_await loop.connect("127.0.0.1", port);
  if (!peer) co_return complain(peer.error());
  if (auto sent = co_await loop.send(*peer, question); !sent) co_return complain(sent.error());
  auto answer = co_await loop.receive(*peer);
  if (!answer) co_return complain(answer.error());
  std::printf("%zu bytes came back: %.10s\n", answer->size(), answer->text().data());
}

int main() {
  auto context = weft::channel::Context::create().value();
  auto listener = context.listen("127.0.0.1", 0).value();
  Loop loop(context);
  loop.spawn(serve(loop, listener));
  for (int i = 0; i < kAskers; ++i) {
    // The second is too large for small buffers, the third is read where it is.
    const std::size_t bytes = i == 0 ? 10 : i == 1 ? 10'000 : 1'000'000;
    loop.spawn(ask(loop, listener.port(), std::string(bytes, static_cast<char>('a' + i))));
  }
  return loop.run(weft::channel::in(10s)) ? 0 : 1;
}
