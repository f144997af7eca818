// Memory that several processes of one host have mapped: a memfd, sealed against shrinking and
// growing, its pages reserved before they are used, so that touching it never raises a signal for
// want of memory. Owned by whoever made or received it; unmapped and closed with it. In a child
// after fork the mapping stays at its address but holds zeros that nobody shares (see fork.h).
#pragma once

#include <cstddef>
#include <span>

#include "host/strange_fd.h"
#include "weft/result.h"

namespace weft::host {

class SharedMemory {
 public:
  enum class Peers : bool { kRead, kWrite };  ///< what those who receive the fd may do

  SharedMemory() = default;
  /// `bytes` is rounded up to pages; `name` is what /proc/PID/maps shows. The first `reserved`
  /// bytes have their pages at once; the rest is address space until reserve().
  static Result<SharedMemory> create(const char* name, std::size_t bytes, std::size_t reserved,
                                     Peers peers);
  /// Maps what a peer sent. Refuses what is not a sealed memfd, is
  /// smaller than `least` or larger than `most`, or, for kWrite, cannot be written.
  static Result<SharedMemory> receive(StrangeFd fd, std::size_t least, std::size_t most,
                                      Peers mine);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Puts `other`, of the same size, where this is: pointers into it stay good. False: nothing was
  /// done.
  bool replace_by(SharedMemory other);

  /// Gives pages to [offset, offset + bytes); kOutOfMemory names how many there were to be.
  Result<void> reserve(std::size_t offset, std::size_t bytes);

  /// Gives all pages back, also those that peers have mapped and whatever they do: who still reads
  /// finds zeros. For an owner that is about to end.
  void discard();

  std::span<std::byte> bytes() const { return {data_, size_}; }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// -1 when it was closed, or in a child. To be sent to peers: a system call makes sure.
  int fd() const { return fd_.checked(); }
  explicit operator bool() const { return data_ != nullptr; }
  /// The mapping is all that is needed from now on.
  void close_fd() { fd_.reset(); }

 private:
  static Result<SharedMemory> map(Fd fd, std::size_t size, int protection);
  void unmap();

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Fd fd_;
};

}  // namespace weft::host
