// Which addresses are this machine's, and which of the shown devices stands for one. Asks the
// kernel at each call, because interfaces come and go. Any thread.
#pragma once

#include <vector>

#include "files/device_list.h"
#include "weft/types.h"

namespace weft::ucma {

class LocalAddresses {
 public:
  /// As they are now; the kernel is asked only when a shown device's are not enough.
  LocalAddresses();

  /// An interface's or a shown device's.
  bool has(const Gid& address) const;
  /// The same, or a loopback address: whoever has it is on this machine.
  bool reaches(const Gid& address) const;
  const std::vector<Gid>& all() const {
    ask_kernel();
    return all_;
  }

 private:
  void ask_kernel() const;
  bool knows(const Gid& address) const;

  mutable std::vector<Gid> all_;
  mutable bool asked_ = false;
};

/// The device with this address; null if none has it.
const files::ShownDevice* device_with(const Gid& address);
/// The same, or the first device.
/// The shown device through which the kernel would reach an address of another host; null: none.
const files::ShownDevice* device_towards(const Gid& address);
const files::ShownDevice& device_for(const Gid& address);

}  // namespace weft::ucma
