// The receiving end of a UDP port: takes datagrams from the socket, many at once where the kernel
// has joined frames of one sender (GRO), and cuts and checks them. What lies in the buffer is
// hostile. Owned by the port; one thread at a time; no allocation after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "port/identification_book.h"
#include "port/port.h"
#include "port/udp_socket.h"
#include "wire/icrc.h"

namespace weft::port {

/// What the kernel tells of a datagram.
struct Arrival {
  SocketAddress from;
  std::size_t bytes = 0;
  std::size_t segment_bytes = 0;  ///< of the frames that the kernel joined; 0: it is a single one
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
};

/// Why something is no frame.
enum class Drop : std::uint8_t {
  kMalformed,
  kBadChecksum,
  kProbe,  ///< of a process that joins the address: nothing to count
};

void report_drop(Receiver& receiver, Drop drop);

class UdpInbox {
 public:
  explicit UdpInbox(const Gid& local);

  /// True while frames of the last call of fill() are left.
  bool has_frames() const { return next_ < count_; }
  std::size_t frames_left() const { return count_ - next_; }
  /// Of the last datagram, or of all that the kernel joined.
  std::size_t bytes() const { return size_; }
  /// Takes what comes next from the socket; only when nothing is left. False: there is nothing.
  bool fill(int fd);
  /// The same by a call that is a third shorter, for when frames come one by one. It tells neither
  /// traffic class nor hop limit; where joined frames are to be cut is found by their ICRCs.
  bool fast_fill(int fd);
  /// The same for a datagram that lies in the buffer, wherever it came from.
  std::span<std::byte> buffer() { return *bytes_; }
  void take(const Arrival& arrival);
  /// The last call was the shorter one, and found no good frame: another such may fare no better.
  bool in_doubt() const { return in_doubt_; }
  /// The next frame, which lives until the next call. The last goes first where it may
  /// (wire::may_go_first). Null: it is not one, dropped() says why.
  const Incoming* next();
  Drop dropped() const { return dropped_; }
  /// Who sent what is in the buffer.
  const SocketAddress& from() const { return from_; }

 private:
  static constexpr std::size_t kBytes = 1 << 16;

  void take_source(const SocketAddress& from);
  bool accept_source();
  void cut(std::size_t size, std::size_t segment);
  std::size_t find_cut(std::size_t size);
  bool may_be_cut_at(std::size_t at) const;
  bool begins_with(std::size_t bytes) const;
  bool begins_behind_gap(std::size_t bytes);
  bool may_take_last_first() const;
  std::span<std::byte> segment(std::size_t index) const;
  wire::Icrc icrc_of(std::span<std::byte> bytes, std::uint16_t identification) const;
  bool may_have(std::uint16_t identification);
  void on_expected();
  bool check(std::span<std::byte> bytes, std::uint16_t place);

  const Gid local_;
  IdentificationBook identifications_;
  std::unique_ptr<std::array<std::byte, kBytes>> bytes_;

  // Of the sender of what is in the buffer.
  SocketAddress from_{};
  bool usable_ = false;  ///< the address has the right family
  bool noted_ = false;   ///< in the book, as one that does not count
  bool counts_ = false;  ///< in the identification
  Incoming incoming_;    ///< the frame that next() gave last
  Drop dropped_ = Drop::kMalformed;
  std::optional<wire::IcrcPrefix> prefix_;

  std::size_t size_ = 0;
  std::size_t segment_bytes_ = 1;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  bool last_goes_first_ = false;
  bool checked_ = false;  ///< it is one frame, and good
  bool in_doubt_ = false;
  std::uint16_t first_identification_ = 0;  ///< of the buffer's frames; they count from there
  std::uint16_t next_identification_ = 0;   ///< of what its sender is likely to send next
};

}  // namespace weft::port
