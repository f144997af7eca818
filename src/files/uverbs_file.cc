#include "files/uverbs_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "files/char_device.h"
#include "files/char_numbers.h"
#include "files/device_list.h"
#include "host/fd.h"

namespace weft::files {
namespace {

class UverbsFile final : public CharFile {
 public:
  explicit UverbsFile(host::Fd fd) : fd_(std::move(fd)) {}
  int fd() const override { return fd_.get(); }
  ssize_t write(std::span<const std::byte>) override {
    errno = EPERM;
    return -1;
  }

 private:
  host::Fd fd_;
};

std::unique_ptr<CharFile> open_uverbs(int flags) {
  const host::ForkHold hold;
  host::Fd fd(open("/dev/null", (flags & O_ACCMODE) | O_CLOEXEC));
  if (!fd) return nullptr;
  return std::make_unique<UverbsFile>(std::move(fd));
}

}  // namespace

void emulate_uverbs() {
  [[maybe_unused]] static const bool once = [] {
    for (const ShownDevice& device : shown_devices()) {
      emulate(fmt::format("/dev/infiniband/uverbs{}", device.uverbs), uverbs_number(device.uverbs),
              open_uverbs);
    }
    return true;
  }();
}

}  // namespace weft::files
