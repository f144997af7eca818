#include "files/char_numbers.h"

#include <cstdio>
#include <memory>

namespace weft::files {

dev_t rdma_cm_number() {
  // The interposed call: with a tree this is the tree's file.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen("/sys/class/misc/rdma_cm/dev", "re"), std::fclose);
  unsigned major_number = 0, minor_number = 0;
  if (file == nullptr || std::fscanf(file.get(), "%u:%u", &major_number, &minor_number) != 2) {
    return usual_rdma_cm_number();
  }
  return makedev(major_number, minor_number);
}

}  // namespace weft::files
