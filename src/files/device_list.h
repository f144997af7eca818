// The devices that programs see under `weft run`: names, addresses and the look that sysfs gives
// them. The command writes the list into the environment (WEFT_DEVICES, WEFT_LINK_LAYER, and in
// WEFT_FIRST_UVERBS how many uverbs<n> of real devices come before weft's), and every process reads
// it there once; all processes with the same list see the same devices. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/result.h"
#include "weft/types.h"

namespace weft::files {

enum class LinkLayer : std::uint8_t { kEthernet, kInfiniBand };

struct ShownDevice {
  std::string name;  ///< "weft0"
  Gid address{};     ///< of its only port
  LinkLayer link_layer = LinkLayer::kEthernet;
  std::uint64_t guid = 0;      ///< follows from name and address; host byte order
  std::string interface = {};  ///< the network interface that has the address, "lo" if none
  std::uint32_t index = 0;     ///< its place in the list
  std::uint32_t uverbs = 0;    ///< uverbs<n>: the place, above those of the machine's own devices
  Lid lid{};                   ///< InfiniBand: the place + 1; 0 on Ethernet
};

/// "weft0", "weft0=10.0.0.1,weft1=eth0,weft2=auto": an address or what parse_place() makes one of;
/// without it, the device at place n of the list has 127.0.0.(n + 1). An empty text means "weft0".
/// Names are letters, digits, '_' and '-'; at most 16 devices.
Result<std::vector<ShownDevice>> parse_devices(std::string_view text, LinkLayer link_layer);

/// How people write it: "ib" or "roce"; nullopt for anything else.
std::optional<LinkLayer> parse_link_layer(std::string_view text);

/// What the environment says; a text that is wrong is told once in the log and taken as empty. Read
/// at the first call, lives for ever.
const std::vector<ShownDevice>& shown_devices();

}  // namespace weft::files
