// The look of the devices as ordinary files: what sysfs and /dev would show, written below a root
// directory, where the interposed calls (path_map.h) send a program that asks for the true places.
// The machine's own devices are links to the true ones, so that both are seen side by side. Written
// once by the command, before the program starts; then only read. The caller owns the directory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "files/device_list.h"
#include "weft/result.h"

namespace weft::files {

/// Where the machine's own devices are: "/", unless a test says otherwise.
struct Machine {
  std::string root = "/";
};

/// Writes everything below `root`, a directory that exists and is empty.
Result<void> write_tree(const std::string& root, std::span<const ShownDevice> devices,
                        const Machine& machine = {});

/// One above the highest uverbs<n> of the machine: 0 if it has none.
std::uint32_t first_free_uverbs(const Machine& machine = {});

}  // namespace weft::files
