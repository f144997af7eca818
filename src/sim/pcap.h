// Writes packets to a capture file (pcap, raw IP) that Wireshark and tshark read. Owned by whoever
// opened it; the file is complete when the object is gone. One thread.
#pragma once

#include <cstddef>
#include <fstream>
#include <span>
#include <string>

#include "weft/result.h"
#include "weft/types.h"

namespace weft::sim {

class PcapWriter {
 public:
  static Result<PcapWriter> open(const std::string& path);
  void write(Nanoseconds when, std::span<const std::byte> from_ip_header);

 private:
  explicit PcapWriter(std::ofstream file) : file_(std::move(file)) {}
  std::ofstream file_;
};

}  // namespace weft::sim
