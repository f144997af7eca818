// What stands behind a context's cmd_fd: the device, and which object each handle names. A context
// that is imported from a duplicate of the descriptor shares it, and can import the objects.
// Domains and device memory are therefore two things: the state here, which a destroy call ends,
// and the structures that programs hold (objects.h), as many as were imported. Of regions, which
// there are many of, the first structure is the state too. Only within one process: what another
// one registered cannot be reached from here. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "shim/numbered.h"
#include "weft/verbs.h"

namespace weft::shim {

struct PdState : std::enable_shared_from_this<PdState> {
  verbs::ProtectionDomain pd;
  std::atomic<int> users{0};

  explicit PdState(verbs::ProtectionDomain domain) : pd(std::move(domain)) {}
};

struct DmState : std::enable_shared_from_this<DmState> {
  std::byte* bytes = nullptr;
  std::size_t length = 0;
  std::size_t mapped = 0;
  std::atomic<int> users{0};

  DmState() = default;
  DmState(const DmState&) = delete;
  DmState& operator=(const DmState&) = delete;
  ~DmState();  ///< unmaps the bytes
};

struct Mr;

class CommandFile {
 public:
  CommandFile(ibv_device* of, verbs::Device opened) : device_(of), opened_(std::move(opened)) {}

  /// A new one and its descriptor, which the caller closes. Null: errno tells why.
  static std::shared_ptr<CommandFile> make(ibv_device* device, const verbs::Device& opened,
                                           int* fd);
  /// The descriptor is weft's, whichever process made it.
  static bool is_one(int fd);
  /// Null: it is another process's, or a parent's.
  static std::shared_ptr<CommandFile> find(int fd);

  ibv_device* device() const { return device_; }
  const verbs::Device& opened() const { return opened_; }

  Numbered<PdState> pds;
  Numbered<Mr> mrs;  ///< those that were registered, not the imported ones
  Numbered<DmState> dms;
  /// Nobody holds the object any more, but nobody destroyed it either: it lives as long as the
  /// file.
  void keep(std::shared_ptr<void> state);

 private:
  ibv_device* const device_;
  const verbs::Device opened_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// Null: there is no memory for it.
template <class T, class... Arguments>
std::shared_ptr<T> allocate_shared(Arguments&&... arguments) {
  try {
    return std::make_shared<T>(std::forward<Arguments>(arguments)...);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// For handles: each number once in a process.
std::uint32_t next_handle();

}  // namespace weft::shim
