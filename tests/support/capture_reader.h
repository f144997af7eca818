// Reads the frames of a pcap or pcapng file, for tests. Little-endian files only, as every capture
// here is; anything that does not fit together throws, which fails the test that asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::test {

using Frame = std::vector<std::byte>;

namespace detail {

class CaptureReader {
 public:
  explicit CaptureReader(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open " + path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.assign(bytes.begin(), bytes.end());
  }

  std::vector<Frame> frames() const {
    constexpr std::uint32_t kPcap = 0xA1B2C3D4, kPcapNanoseconds = 0xA1B23C4D;
    constexpr std::uint32_t kPcapng = 0x0A0D0D0A;
    switch (u32(0)) {
      case kPcap:
      case kPcapNanoseconds:
        return pcap_frames();
      case kPcapng:
        return pcapng_frames();
      default:
        throw std::runtime_error("neither pcap nor pcapng");
    }
  }

 private:
  std::uint32_t u32(std::size_t at) const {
    std::uint32_t v = 0;
    for (std::size_t i = 4; i-- > 0;)
      v = v << 8 | std::to_integer<std::uint32_t>(bytes_.at(at + i));
    return v;
  }
  Frame frame(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) throw std::runtime_error("cut frame");
    const auto whole = std::span(bytes_).subspan(at, size);
    return Frame(whole.begin(), whole.end());
  }
  std::vector<Frame> pcap_frames() const {
    constexpr std::size_t kFileHeader = 24, kRecordHeader = 16;
    std::vector<Frame> out;
    for (std::size_t at = kFileHeader; at < bytes_.size();) {
      out.push_back(frame(at + kRecordHeader, u32(at + 8)));
      at += kRecordHeader + out.back().size();
    }
    return out;
  }
  std::vector<Frame> pcapng_frames() const {
    constexpr std::uint32_t kEnhancedPacket = 6;
    std::vector<Frame> out;
    for (std::size_t at = 0; at < bytes_.size();) {
      const std::size_t length = u32(at + 4);
      if (length < 12 || length % 4 != 0) throw std::runtime_error("bad block length");
      if (u32(at) == kEnhancedPacket) out.push_back(frame(at + 28, u32(at + 20)));
      at += length;
    }
    return out;
  }

  std::vector<std::byte> bytes_;
};

}  // namespace detail

inline std::vector<Frame> read_capture(const std::string& path) {
  return detail::CaptureReader(path).frames();
}

}  // namespace weft::test
