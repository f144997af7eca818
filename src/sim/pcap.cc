#include "sim/pcap.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace weft::sim {
namespace {

// The classic format in the writer's byte order; this magic says that times are in nanoseconds.
constexpr std::uint32_t kMagicNanoseconds = 0xA1B23C4D;
constexpr std::uint32_t kLinkTypeRaw = 101;
constexpr std::uint32_t kSnapLength = 65535;

template <class Words>
void put(std::ofstream& file, const Words& words) {
  file.write(reinterpret_cast<const char*>(words.data()),
             static_cast<std::streamsize>(words.size() * sizeof words[0]));
}

}  // namespace

Result<PcapWriter> PcapWriter::open(const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return fail(Errc::kSystem, path + ": " + std::strerror(errno));
  const std::uint32_t version = 2u | 4u << 16;  // two 16-bit fields, major first
  put(file,
      std::array<std::uint32_t, 6>{kMagicNanoseconds, version, 0, 0, kSnapLength, kLinkTypeRaw});
  return PcapWriter(std::move(file));
}

void PcapWriter::write(Nanoseconds when, std::span<const std::byte> packet) {
  const auto size = static_cast<std::uint32_t>(packet.size());
  put(file_,
      std::array<std::uint32_t, 4>{static_cast<std::uint32_t>(when / 1'000'000'000),
                                   static_cast<std::uint32_t>(when % 1'000'000'000), size, size});
  file_.write(reinterpret_cast<const char*>(packet.data()),
              static_cast<std::streamsize>(packet.size()));
}

}  // namespace weft::sim
