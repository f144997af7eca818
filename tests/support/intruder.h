// A process of this host that calls another by hand, to get or do more than an honest one would: it
// says hello as a controller does, and keeps everything that it is given. For partners: what fails
// here ends the process.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "host/abstract_name.h"
#include "host/handshake.h"
#include "host/process_page.h"
#include "host/public_tables.h"
#include "host/ring.h"
#include "support/partner.h"
#include "weft/verbs.h"

namespace weft::test {

inline std::string name_of(const verbs::Endpoint& end) {
  std::string name = "weft/";
  for (const std::uint8_t byte : end.gid.raw) name += fmt::format("{:02x}", byte);
  return name + fmt::format("/{:03x}", end.qpn.value >> 12);
}

class Intruder {
 public:
  explicit Intruder(const verbs::Endpoint& victim) {
    // Not by LocalSocket::connect(), which calls nobody but processes of this user.
    host::Fd connected = host::make_local_socket();
    const auto name = host::AbstractName::make(name_of(victim));
    require(host::connect_now(connected.get(), *name) == 0, "somebody listens");
    socket = host::LocalSocket(std::move(connected));
  }

  void say_hello() {
    host::Handshake hello;
    hello.note = host::Note::kHello;
    const std::vector<int> fds{page->fd(), ring.fd()};
    static_cast<void>(socket.send(std::as_bytes(std::span(&hello, 1)), fds));
  }
  /// Everything that came, up to the first pause or the end; true: it was welcome.
  bool receive_all(int patience_ms = 10'000) {
    for (;; patience_ms = 200) {
      auto message = socket.receive(sizeof(host::Handshake), patience_ms);
      if (!message) return !received.empty();
      received.push_back(std::move(*message));
    }
  }
  bool is_welcome() {
    say_hello();
    return receive_all();
  }

  host::ProcessPage* page = host::ProcessPage::mine().value();
  host::RingProducer ring = host::RingProducer::create().value();
  host::LocalSocket socket;
  std::vector<host::Message> received;
};

}  // namespace weft::test
