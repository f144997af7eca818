// Writes packets to a capture file (pcap, raw IP, nanoseconds) that Wireshark and tshark open. Used
// by the simulation and by ports that record. What was given to write() is in memory until flush(),
// until enough has gathered, or until the writer goes; a process that is killed loses no more than
// that. Any thread; a lock is held while the kernel takes the bytes, so that they stay in order.
//
// Several writers, of one process or of many, may have the same file: each hands over whole records
// and the kernel appends them. The first one empties the file; it is the first as long as no other
// has it open.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

class PcapWriter {
 public:
  /// What becomes of a file that exists and that nobody is writing.
  enum class Old { kReplace, kContinue };
  static Result<std::unique_ptr<PcapWriter>> open(const std::string& path, Old old = Old::kReplace);
  ~PcapWriter();
  PcapWriter(const PcapWriter&) = delete;
  PcapWriter& operator=(const PcapWriter&) = delete;

  /// One packet from its IP header on, in as many parts as it comes in.
  void write(Nanoseconds when, std::initializer_list<std::span<const std::byte>> parts);
  /// False: the file takes no more (a full disk); what follows is dropped.
  bool flush();

 private:
  explicit PcapWriter(int fd);
  bool flush_locked();

  const int fd_;
  std::mutex mutex_;
  std::vector<std::byte> waiting_;
  bool broken_ = false;
};

}  // namespace weft::port
