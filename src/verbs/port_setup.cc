#include "verbs/port_setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "network/address.h"
#include "obs/log.h"
#include "port/fault_port.h"
#include "port/packet_port.h"
#include "port/pcap_port.h"
#include "port/raw_hub.h"
#include "port/udp_port.h"
#include "verbs/environment_options.h"

namespace weft::verbs {
namespace {

/// Of 16 million addresses hardly any is taken: a second try is rare, and a last one means that
/// something else is wrong.
constexpr int kAddressTries = 16;

/// A unique local address (fd00::/8), random: nobody outside this process has a route to it.
Gid private_address(base::Random& random) {
  Gid gid = random.draw<Gid>();
  gid.raw[0] = 0xFD;
  return gid;
}

/// Away from 127.0.0.0/16, which people use, and from what may mean a broadcast.
Gid loopback_address(base::Random& random) {
  const auto draw = random.draw<std::array<std::uint8_t, 3>>();
  const auto in_the_middle = [](std::uint8_t byte) {
    return static_cast<std::uint8_t>(1 + byte % 254);
  };
  return Gid::ipv4(127, in_the_middle(draw[0]), draw[1], in_the_middle(draw[2]));
}

Result<std::unique_ptr<port::UdpPort>> open_somewhere(base::Random& random,
                                                      std::optional<unsigned> slot) {
  for (int i = 1;; ++i) {
    auto opened = port::UdpPort::open(loopback_address(random), port::Sharing::kShared, slot);
    if (opened || opened.error().code != Errc::kBusy || i == kAddressTries) return opened;
  }
}

/// The socket behind a port, or none when its address is only for this process.
Result<PortSetup> set_up_address(const PortOptions& options, bool frames, base::Random& random,
                                 std::optional<unsigned> slot) {
  PortSetup port;
  if (options.address.empty() && options.on_network) {
    return fail(Errc::kInvalidArgument, "ports.address: a port on the network needs one");
  }
  if (options.address.empty() && !frames) {
    port.address = private_address(random);
    return port;
  }
  if (options.address.empty()) {
    auto wire = open_somewhere(random, slot);
    if (!wire) return tl::unexpected(wire.error());
    port.address = (*wire)->address();
    port.number_slot = (*wire)->number_slot();
    port.wire = std::move(*wire);
    return port;
  }
  auto address = network::parse_address(options.address);
  if (!address) return tl::unexpected(address.error());
  port.address = *address;
  if (!options.on_network && !frames) return port;
  auto wire = port::UdpPort::open(port.address, port::Sharing::kShared, slot);
  if (!wire && !options.on_network) {
    return fail(wire.error().code, wire.error().message +
                                       " (the port has to be on the network because frames were "
                                       "asked for: framed path, capture or faults)");
  }
  if (!wire) return tl::unexpected(wire.error());
  port.number_slot = (*wire)->number_slot();
  port.wire = std::move(*wire);
  return port;
}

// ---- raw packets ------------------------------------------------------------------------------

/// Joins the ports of this process whose addresses are its own.
port::RawHub& raw_hub() {
  static auto& hub = *new port::RawHub;
  return hub;
}

/// At an interface of the machine, if the device was told an address of it.
OpenRawPort raw_port_of(const PortOptions& options, const Gid& address, RawUnclaimed unclaimed) {
  if (!options.address.empty()) {
    return [address, unclaimed] { return port::PacketPort::open(address, unclaimed); };
  }
  return [address] {
    LinkAddress link{0x02};  // locally administered
    std::copy_n(address.raw.end() - 5, 5, link.begin() + 1);
    return port::RawHubPort::open(raw_hub(), link);
  };
}

// ---- capture ----------------------------------------------------------------------------------

std::string with_process_id(std::string path) {
  const std::string id = std::to_string(getpid());
  for (std::size_t at = 0; (at = path.find("%p", at)) != std::string::npos; at += id.size()) {
    path.replace(at, 2, id);
  }
  return path;
}

/// The first device of the process begins the file anew, the others go on in it.
Result<std::shared_ptr<port::PcapWriter>> open_capture(const std::string& name) {
  static auto* begun = new std::set<std::pair<pid_t, std::string>>;
  static std::mutex mutex;
  const std::string path = with_process_id(name);
  const std::lock_guard guard(mutex);
  const bool first = !begun->contains({getpid(), path});
  using Old = port::PcapWriter::Old;
  auto opened = port::PcapWriter::open(path, first ? Old::kReplace : Old::kContinue);
  if (!opened) {
    return fail(opened.error().code, "pcap: " + opened.error().message +
                                         "; DeviceOptions::pcap or WEFT_PCAP names a file that can "
                                         "be written, %p becomes the process id");
  }
  begun->emplace(getpid(), path);
  return std::shared_ptr<port::PcapWriter>(std::move(*opened));
}

// ---- faults -----------------------------------------------------------------------------------

struct PortFaults {
  port::FaultSpec spec;
  std::uint64_t seed = 0;
};

Result<PortFaults> read_faults(const DeviceOptions& options, base::Random& random) {
  PortFaults out;
  const auto spec = port::parse_faults(options.faults);
  if (!spec) return fail(spec.error().code, "faults: " + spec.error().message);
  out.spec = *spec;
  out.seed = options.faults_seed ? *options.faults_seed : random.draw<std::uint64_t>();
  obs::log().warn("{}: faults on arriving frames: {}; WEFT_FAULTS_SEED={} repeats them",
                  options.name, options.faults, out.seed);
  return out;
}

/// Each port of the process has its own sequence of fates, the same ones again for the same seed.
std::uint64_t next_port_seed(std::uint64_t seed) {
  static std::atomic<std::uint64_t> ports{0};
  constexpr std::uint64_t kApart = 0x9E37'79B9'7F4A'7C15;
  return seed + kApart * ports.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Result<std::vector<PortSetup>> set_up_ports(const DeviceOptions& options,
                                            const Environment& environment) {
  std::optional<PortFaults> faults;
  if (!options.faults.empty()) {
    auto read = read_faults(options, *environment.random);
    if (!read) return tl::unexpected(read.error());
    faults = *read;
  }
  std::shared_ptr<port::PcapWriter> capture;
  if (!options.pcap.empty()) {
    auto opened = open_capture(options.pcap);
    if (!opened) return tl::unexpected(opened.error());
    capture = std::move(*opened);
  }
  std::vector<PortOptions> wanted = options.ports;
  if (wanted.empty()) wanted.emplace_back();
  std::vector<PortSetup> ports;
  std::optional<unsigned> slot;  // a queue pair has one number, whichever port it uses
  for (const PortOptions& port : wanted) {
    auto made = set_up_address(port, wants_frames(options), *environment.random, slot);
    if (!made) return tl::unexpected(made.error());
    if (!slot) slot = made->number_slot;
    // The capture outside: it shows what the controller sees, after the faults.
    if (faults) {
      made->wire = std::make_unique<port::FaultPort>(
          std::move(made->wire), faults->spec, next_port_seed(faults->seed),
          [clock = environment.clock] { return clock->now(); });
    }
    if (capture) made->wire = std::make_unique<port::PcapPort>(std::move(made->wire), capture);
    made->open_raw = raw_port_of(port, made->address, options.raw_unclaimed);
    ports.push_back(std::move(*made));
  }
  return ports;
}

}  // namespace weft::verbs
