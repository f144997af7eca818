// One command of the program on its way: what it wrote behind the header, and where it wants the
// answer. Lengths are checked as the kernel does; programs of older and newer librdmacm write
// shorter and longer structures, so what is missing reads as zero. On the stack of one write(),
// under the device's lock. The memory that answers go to is the program's own, as it says.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "ucma/cm_device.h"
#include "ucma/file.h"

namespace weft::ucma {

struct Call {
  CmDevice& device;
  File& file;
  std::span<const std::byte> in;
  std::size_t out_bytes;
  /// Keeps another file that the command is about, until the lock is free again.
  std::shared_ptr<files::CharFile>& other;

  template <class Command>
  Command read() const {
    static_assert(std::is_trivially_copyable_v<Command>);
    Command command{};
    if (!in.empty()) std::memcpy(&command, in.data(), std::min(in.size(), sizeof command));
    return command;
  }

  /// At least `least` bytes must be wanted: ENOSPC. 0 is success.
  int respond(std::uint64_t address, std::span<const std::byte> answer, std::size_t least) const {
    if (out_bytes < least) return ENOSPC;
    if (address == 0) return EFAULT;
    std::memcpy(reinterpret_cast<void*>(address), answer.data(),
                std::min(out_bytes, answer.size()));
    return 0;
  }
  template <class Answer>
  int respond(std::uint64_t address, const Answer& answer,
              std::size_t least = sizeof(Answer)) const {
    static_assert(std::is_trivially_copyable_v<Answer>);
    return respond(address, std::as_bytes(std::span(&answer, 1)), least);
  }

  /// The identifier's context, or null and why: ENOENT, or EINVAL when it is another file's.
  Context* find(std::uint32_t handle, int& error) const {
    Context* const context = device.find(Handle(handle));
    error = context == nullptr ? ENOENT : context->file != &file ? EINVAL : 0;
    return error == 0 ? context : nullptr;
  }
  /// Has the connection manager do something with the identifier.
  template <class Function>
  int with(std::uint32_t handle, Function function) const {
    int error = 0;
    Context* const context = find(handle, error);
    if (context == nullptr) return error;
    return device.run([&](cm::Manager& manager, Nanoseconds now, cm::Actions& out) {
      return function(manager, context->id, now, out);
    });
  }
};

}  // namespace weft::ucma
