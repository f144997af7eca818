// Channels between two hosts, whatever their devices are: one serves, the other calls, with each
// kind of settings in turn. Messages of all sizes go there and back, through small rings, rings
// that have grown, that have shrunk and grown again, in pieces, and read in place; every byte is
// compared.
//   channel_pair serve ADDRESS PORT      channel_pair call ADDRESS PORT
#include <weft/channel.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "demo/traffic.h"

using namespace std::chrono_literals;
using namespace weft;
using channel::Channel;
using channel::Context;
using channel::Settings;

namespace {

constexpr auto kPatience = 60s;  // a virtual machine is slow
constexpr int kMany = 12;        // channels at once, in the last part
constexpr int kManyMessages = 300;

[[noreturn]] void give_up(const std::string& where, const std::string& why) {
  std::printf("%s: %s\n", where.c_str(), why.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

template <class T>
T must(Result<T> result, const std::string& where) {
  if (!result) give_up(where, result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Part {
  std::string name;
  Settings settings;
  bool grows = true;
};

std::vector<Part> parts() {
  Settings usual;
  usual.shrink_after_ns = 300'000'000;
  std::vector<Part> all{{"flowing", usual}};
  all.push_back({"strict", usual});
  all.back().settings.strict = true;
  all.push_back({"small rings kept", usual});
  all.back().settings.keep_small = true;
  all.push_back({"three phases", usual});
  all.back().settings.phases = {{512, 3}, {4'000, 4}, {16'384, 4}};
  all.push_back({"provisioned before the control message", usual});
  all.back().settings.order = channel::ProvisionOrder::kBeforeControl;
  all.push_back({"windows closed by the peer", usual});
  all.back().settings.loan_end = channel::LoanEnd::kPeerCloses;
  all.push_back({"lean", Settings::tiny()});
  all.back().settings.shrink_after_ns = 300'000'000;
  all.push_back({"fixed", Settings::fixed(), false});
  return all;
}

std::string text_of(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(demo::word_of(seed, i / 8) >> i % 8 * 8);
  }
  return text;
}

void echo(Channel& peer, const std::string& name) {
  for (;;) {
    auto message = peer.receive(channel::in(kPatience));
    if (!message && message.error().code == Errc::kNotFound) break;
    // Who hears of the end before it has looked at the last frame finds nothing left to answer.
    if (!message && !peer.connected()) break;
    const auto text = must(std::move(message), name);
    must(peer.send(text.bytes(), channel::in(kPatience)), name);
  }
}

void exchange(Channel& peer, const Part& part, std::uint64_t seed) {
  for (const std::size_t bytes :
       {1u, 8u, 100u, 512u, 513u, 3'000u, 5'000u, 16'384u, 16'385u, 40'000u, 300'000u, 77u}) {
    const std::string text = text_of(bytes, seed + bytes);
    must(peer.send(text, channel::in(kPatience)), part.name);
    const auto back = must(peer.receive(channel::in(kPatience)), part.name);
    if (back.text() != text) give_up(part.name, std::to_string(bytes) + " bytes came back changed");
  }
}

void call(Context& context, const std::string& host, std::uint16_t port, const Part& part) {
  Channel peer =
      must(context.connect(host, port, channel::in(kPatience), part.settings), part.name);
  for (std::uint64_t round = 0; round < 2; ++round) {
    exchange(peer, part, round << 32);
    if (!part.grows) continue;
    if (peer.statistics().grows <= round) give_up(part.name, "it has not grown");
    const auto deadline = channel::in(kPatience);
    // So long that what was freed has left, and more: then it is used again.
    for (auto rested = channel::in(500ms); std::chrono::steady_clock::now() < rested;) {
      context.wait(channel::in(10ms));
      if (peer.statistics().send_phase > 0) rested = channel::in(500ms);
      if (std::chrono::steady_clock::now() > deadline) give_up(part.name, "it does not shrink");
    }
  }
  must(peer.close(channel::in(kPatience)), part.name);
  std::printf("%s: right\n", part.name.c_str());
}

// ---- many channels, of which few are busy -------------------------------------------------------

void call_many(Context& context, const std::string& host, std::uint16_t port) {
  std::vector<Channel> peers;
  for (int i = 0; i < kMany; ++i) {
    peers.push_back(must(context.connect(host, port, channel::in(kPatience)), "many"));
  }
  demo::Skew skew(kMany, 5);
  std::vector<std::byte> message;
  for (std::uint32_t number = 0; number < kManyMessages; ++number) {
    const std::uint32_t i = skew.channel();
    // Most are small, some need a larger ring, few are read in place.
    const std::uint32_t bytes = number % 50 == 7 ? 100'000 : i < 2 ? 6'000 : skew.bytes(100);
    message.resize(bytes);
    demo::fill({i, number, bytes, 0, 0}, message);
    must(peers[i].send(message, channel::in(kPatience)), "many");
    const auto back = must(peers[i].receive(channel::in(kPatience)), "many");
    demo::Head head;
    if (!demo::verify(back.bytes(), i, number, head))
      give_up("many", "a message came back changed");
  }
  int grown = 0;
  for (Channel& peer : peers) grown += peer.statistics().grows > 0 ? 1 : 0;
  if (grown == 0 || grown == kMany) give_up("many", "all have grown, or none");
  for (Channel& peer : peers) must(peer.close(channel::in(kPatience)), "many");
  std::printf("many: right\n");
}

void serve_many(Context& context, channel::Listener& listener) {
  std::vector<Channel> peers;
  while (peers.size() < kMany) {
    peers.push_back(must(listener.accept(channel::in(kPatience)), "many"));
  }
  while (!peers.empty()) {
    const std::uint64_t seen = context.events();
    bool any = false;
    std::erase_if(peers, [&](Channel& peer) {
      auto message = peer.try_receive();
      if (!message) return true;
      if (!*message) return false;
      any = true;
      must(peer.send((*message)->bytes(), channel::in(kPatience)), "many");
      return false;
    });
    if (any || peers.empty() || context.wait(channel::in(kPatience), seen)) continue;
    give_up("many", "nothing comes");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) give_up("usage", "channel_pair serve|call ADDRESS PORT");
  const bool serves = argv[1] == std::string("serve");
  const std::string host = argv[2];
  auto port = static_cast<std::uint16_t>(std::atoi(argv[3]));
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::vector<Part> all = parts();
  Context context = must(Context::create(), "context");
  if (!serves) {
    for (const Part& part : all) call(context, host, port++, part);
    call_many(context, host, port);
  } else {
    std::vector<channel::Listener> listeners;
    for (const Part& part : all) {
      listeners.push_back(must(context.listen(host, port++, part.settings), part.name));
    }
    listeners.push_back(must(context.listen(host, port++), "many"));
    for (std::size_t i = 0; i < all.size(); ++i) {
      Channel peer = must(listeners[i].accept(channel::in(kPatience)), all[i].name);
      echo(peer, all[i].name);
    }
    serve_many(context, listeners.back());
  }
  std::printf("channels: right\n");
  return 0;
}
