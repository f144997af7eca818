#include "files/device_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "files/machine_addresses.h"
#include "obs/log.h"

namespace weft::files {
namespace {

constexpr std::size_t kMostDevices = 16;
constexpr std::size_t kLongestName = 40;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

std::string interface_of(const Gid& address) {
  for (const MachineAddress& each : machine_addresses()) {
    if (each.address == address) return each.interface;
  }
  return "lo";
}

/// The same in every process, and never one of a real device: the second bit of the first byte
/// says that it is locally administered.
std::uint64_t guid_of(std::string_view name, const Gid& address) {
  std::uint64_t hash = std::hash<Gid>{}(address);
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return (hash & 0x00FF'FFFF'FFFF'FFFF) | 0x0200'0000'0000'0000;
}

LinkLayer link_layer_of_environment() {
  const char* text = std::getenv("WEFT_LINK_LAYER");
  if (text == nullptr || *text == '\0') return LinkLayer::kEthernet;
  const auto parsed = parse_link_layer(text);
  if (!parsed) obs::log().error("WEFT_LINK_LAYER: '{}' is neither ib nor roce; taking roce", text);
  return parsed.value_or(LinkLayer::kEthernet);
}

/// Real devices that come before ours. What is no number is 0: the command writes it, not people.
std::uint32_t first_uverbs_of_environment() {
  const char* text = std::getenv("WEFT_FIRST_UVERBS");
  std::uint32_t first = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), first);
  return first;
}

}  // namespace

Result<std::vector<ShownDevice>> parse_devices(std::string_view text, LinkLayer link_layer) {
  std::vector<ShownDevice> devices;
  if (text.empty()) text = "weft0";
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    ShownDevice device;
    device.name = item.substr(0, equals);
    if (!is_name(device.name)) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("'{}' is no device name: letters, digits, '_' and '-', at most {}",
                              device.name, kLongestName));
    }
    if (devices.size() == kMostDevices) {
      return fail(Errc::kInvalidArgument, fmt::format("more than {} devices", kMostDevices));
    }
    if (std::any_of(devices.begin(), devices.end(),
                    [&](const ShownDevice& other) { return other.name == device.name; })) {
      return fail(Errc::kInvalidArgument, fmt::format("device {} is named twice", device.name));
    }
    device.index = static_cast<std::uint32_t>(devices.size());
    device.uverbs = device.index;
    device.link_layer = link_layer;
    if (link_layer == LinkLayer::kInfiniBand) {
      device.lid = Lid(static_cast<std::uint16_t>(device.index + 1));
    }
    if (equals == std::string_view::npos) {
      device.address = Gid::ipv4(127, 0, 0, static_cast<std::uint8_t>(device.index + 1));
    } else {
      const auto place = parse_place(item.substr(equals + 1));
      if (!place) {
        return fail(place.error().code,
                    fmt::format("device {}: {}", device.name, place.error().message));
      }
      device.address = *place;
    }
    device.guid = guid_of(device.name, device.address);
    device.interface = interface_of(device.address);
    devices.push_back(std::move(device));
  }
  return devices;
}

std::optional<LinkLayer> parse_link_layer(std::string_view text) {
  if (text == "ib") return LinkLayer::kInfiniBand;
  if (text == "roce") return LinkLayer::kEthernet;
  return {};
}

const std::vector<ShownDevice>& shown_devices() {
  static const auto& devices = *new std::vector<ShownDevice>([] {
    const LinkLayer link_layer = link_layer_of_environment();
    const char* text = std::getenv("WEFT_DEVICES");
    auto parsed = parse_devices(text == nullptr ? "" : text, link_layer);
    if (!parsed) {
      obs::log().error("WEFT_DEVICES: {}; taking weft0 alone", parsed.error().message);
      parsed = parse_devices("", link_layer);
    }
    const std::uint32_t first_uverbs = first_uverbs_of_environment();
    for (ShownDevice& device : *parsed) device.uverbs += first_uverbs;
    return std::move(*parsed);
  }());
  return devices;
}

}  // namespace weft::files
