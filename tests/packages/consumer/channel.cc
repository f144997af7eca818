// A program of somebody else that sends a message through a channel, with the API as it is
// installed.
#include <weft/channel.h>
#include <weft/channel_loop.h>

#include <cstdio>
#include <exception>
#include <future>
#include <string>
#include <thread>

using namespace std::chrono_literals;
namespace channel = weft::channel;

int main() {
  auto context = channel::Context::create();
  if (!context) return std::puts(context.error().message.c_str()), 1;
  auto listener = context->listen("127.0.0.1", 0).value();
  std::promise<void> got_it;
  std::thread client([port = listener.port(), &got_it] {
    auto here = channel::Context::create().value();
    auto peer = here.connect("127.0.0.1", port, channel::in(20s)).value();
    if (!peer.send("hello", channel::in(20s))) std::terminate();
    got_it.get_future().wait();
  });
  auto peer = listener.accept(channel::in(20s)).value();
  const std::string text(peer.receive(channel::in(20s)).value().text());
  got_it.set_value();
  client.join();
  return std::puts(text.c_str()) < 0 || text != "hello" ? 2 : 0;
}
