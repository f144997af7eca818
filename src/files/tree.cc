#include "files/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/version.h"
#include "files/char_numbers.h"
#include "files/gid_table.h"
#include "host/system_error.h"

namespace weft::files {
namespace {

constexpr std::string_view kUverbs = "uverbs";
constexpr std::string_view kClass = "sys/class";
constexpr std::string_view kDev = "dev/infiniband";

/// Remembers the first refusal, so that the list of files reads as a list.
class Writer {
 public:
  explicit Writer(std::string root) : root_(std::move(root)) {}

  void file(std::string_view path, std::string_view text, mode_t mode = 0444) {
    const std::string full = full_of(path);
    const auto create = [&] {
      return open(full.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    };
    int fd = create();
    if (fd < 0 && errno == ENOENT && make_parents(full)) fd = create();
    if (fd < 0) return refused(full);
    const auto size = static_cast<ssize_t>(text.size());
    if (::write(fd, text.data(), text.size()) != size) refused(full);
    // Whatever the umask, here and with directories: only the owner comes into the tree's root.
    if (fchmod(fd, mode) != 0) refused(full);
    close(fd);
  }
  /// A file of one line.
  void line(std::string_view path, std::string_view text) { file(path, fmt::format("{}\n", text)); }
  void link(std::string_view path, const std::string& target) {
    const std::string full = full_of(path);
    const auto create = [&] { return symlink(target.c_str(), full.c_str()) == 0; };
    if (create() || (errno == ENOENT && make_parents(full) && create())) return;
    refused(full);
  }
  Result<void> result() {
    if (error_) return tl::unexpected(std::move(*error_));
    return {};
  }

 private:
  std::string full_of(std::string_view path) const { return fmt::format("{}/{}", root_, path); }
  bool make_parents(const std::string& full) {
    for (std::size_t at = full.find('/', root_.size() + 1); at != std::string::npos;
         at = full.find('/', at + 1)) {
      const std::string part = full.substr(0, at);
      if (mkdir(part.c_str(), 0755) == 0) {
        if (chmod(part.c_str(), 0755) != 0) return false;
      } else if (errno != EEXIST) {
        return false;
      }
    }
    return true;
  }
  void refused(const std::string& path) {
    if (!error_) error_ = host::system_error(path, errno).value();
  }

  std::string root_;
  std::optional<Error> error_;
};

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open_directory(opendir(directory.c_str()), closedir);
  if (open_directory == nullptr) return names;
  while (const dirent* entry = readdir(open_directory.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string groups_of(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
  }
  return text;
}

std::string guid_text(std::uint64_t guid) {
  std::uint8_t bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(guid >> (56 - 8 * i));
  return groups_of(bytes);
}

std::string number_text(dev_t number) { return fmt::format("{}:{}", major(number), minor(number)); }

/// An empty entry is a GID of zeros without attributes; the kernel's files of those cannot be read.
void write_gids(Writer& writer, const std::string& port, const ShownDevice& device) {
  for (std::uint32_t i = 0; i < kGidTableLength; ++i) {
    const auto entry = gid_entry(device, i);
    writer.line(fmt::format("{}/gids/{}", port, i), groups_of(entry ? entry->gid.raw : Gid{}.raw));
    if (!entry) continue;
    writer.line(fmt::format("{}/gid_attrs/types/{}", port, i),
                entry->type == GidType::kRoceV2 ? "RoCE v2" : "IB/RoCE v1");
    writer.line(fmt::format("{}/gid_attrs/ndevs/{}", port, i), device.interface);
  }
}

void write_port(Writer& writer, const std::string& port, const ShownDevice& device) {
  const bool ethernet = device.link_layer == LinkLayer::kEthernet;
  writer.line(port + "/cap_mask", ethernet ? "0x00010000" : "0x00010002");
  writer.line(port + "/lid", fmt::format("0x{:x}", device.lid.value));
  writer.line(port + "/lid_mask_count", "0");
  writer.line(port + "/link_layer", ethernet ? "Ethernet" : "InfiniBand");
  writer.line(port + "/phys_state", "5: LinkUp");
  writer.line(port + "/rate", "100 Gb/sec (4X EDR)");
  writer.line(port + "/sm_lid", fmt::format("0x{:x}", ethernet ? 0 : 1));
  writer.line(port + "/sm_sl", "0");
  writer.line(port + "/state", "4: ACTIVE");
  write_gids(writer, port, device);
  writer.line(port + "/pkeys/0", "0xffff");
  for (const char* counter : {"VL15_dropped",
                              "excessive_buffer_overrun_errors",
                              "link_downed",
                              "link_error_recovery",
                              "local_link_integrity_errors",
                              "multicast_rcv_packets",
                              "multicast_xmit_packets",
                              "port_rcv_constraint_errors",
                              "port_rcv_data",
                              "port_rcv_errors",
                              "port_rcv_packets",
                              "port_rcv_remote_physical_errors",
                              "port_rcv_switch_relay_errors",
                              "port_xmit_constraint_errors",
                              "port_xmit_data",
                              "port_xmit_discards",
                              "port_xmit_packets",
                              "port_xmit_wait",
                              "symbol_error",
                              "unicast_rcv_packets",
                              "unicast_xmit_packets"}) {
    writer.line(fmt::format("{}/counters/{}", port, counter), "0");
  }
}

void write_device(Writer& writer, const ShownDevice& device, const Machine& machine) {
  const std::string base = fmt::format("{}/infiniband/{}", kClass, device.name);
  writer.line(base + "/board_id", "weft");
  writer.line(base + "/fw_ver", base::version());
  writer.line(base + "/hca_type", "weft");
  writer.line(base + "/hw_rev", "0x0");
  writer.line(base + "/node_desc", device.name);
  writer.line(base + "/node_guid", guid_text(device.guid));
  writer.line(base + "/node_type", "1: CA");
  writer.line(base + "/sys_image_guid", guid_text(device.guid));
  write_port(writer, base + "/ports/1", device);
  writer.line(base + "/device/numa_node", "-1");
  writer.line(base + "/device/local_cpus", "ffffffff,ffffffff");
  writer.line(base + "/device/local_cpulist", "0-63");
  writer.line(base + "/device/vendor", "0x0000");
  writer.line(base + "/device/device", "0x0000");
  writer.line(base + "/device/subsystem_vendor", "0x0000");
  writer.line(base + "/device/subsystem_device", "0x0000");
  writer.line(base + "/device/class", "0x020700");
  writer.line(base + "/device/uevent", "DRIVER=weft");
  writer.line(base + "/uevent", "NAME=" + device.name);
  writer.link(fmt::format("{}/device/net/{}", base, device.interface),
              fmt::format("{}sys/class/net/{}", machine.root, device.interface));
  const std::string uverbs = fmt::format("{}{}", kUverbs, device.uverbs);
  const std::string number = number_text(uverbs_number(device.uverbs));
  for (const std::string& place : {fmt::format("{}/infiniband_verbs/{}", kClass, uverbs),
                                   fmt::format("{}/device/infiniband_verbs/{}", base, uverbs)}) {
    writer.line(place + "/abi_version", "1");
    writer.line(place + "/dev", number);
    writer.line(place + "/ibdev", device.name);
    writer.line(place + "/uevent", fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/{}",
                                               major(uverbs_number(device.uverbs)),
                                               minor(uverbs_number(device.uverbs)), uverbs));
  }
  writer.file(fmt::format("{}/{}", kDev, uverbs), "", 0666);
}

/// The machine's own things in a directory, except where weft's have the name.
void link_the_machines(Writer& writer, const Machine& machine, std::string_view directory,
                       std::span<const ShownDevice> devices) {
  for (const std::string& name : names_in(fmt::format("{}{}", machine.root, directory))) {
    const bool ours =
        name == "rdma_cm" || name == "abi_version" ||
        std::any_of(devices.begin(), devices.end(), [&](const ShownDevice& device) {
          return device.name == name || fmt::format("{}{}", kUverbs, device.uverbs) == name;
        });
    if (ours) continue;
    writer.link(fmt::format("{}/{}", directory, name),
                fmt::format("{}{}/{}", machine.root, directory, name));
  }
}

}  // namespace

Result<void> write_tree(const std::string& root, std::span<const ShownDevice> devices,
                        const Machine& machine) {
  Writer writer(root);
  for (const ShownDevice& device : devices) write_device(writer, device, machine);
  writer.line(fmt::format("{}/infiniband_verbs/abi_version", kClass), "6");

  struct stat own {};
  const bool has_own = stat(fmt::format("{}{}/rdma_cm", machine.root, kDev).c_str(), &own) == 0 &&
                       S_ISCHR(own.st_mode);
  writer.line(fmt::format("{}/misc/rdma_cm/abi_version", kClass), "4");
  writer.line(fmt::format("{}/misc/rdma_cm/dev", kClass),
              number_text(has_own ? own.st_rdev : usual_rdma_cm_number()));
  writer.file(fmt::format("{}/rdma_cm", kDev), "", 0666);

  for (const std::string_view directory : {std::string_view("sys/class/infiniband"),
                                           std::string_view("sys/class/infiniband_verbs"), kDev}) {
    link_the_machines(writer, machine, directory, devices);
  }
  for (const std::string& name : names_in(fmt::format("{}{}", machine.root, kClass))) {
    if (!name.starts_with("infiniband_") || name == "infiniband_verbs") continue;
    writer.link(fmt::format("{}/{}", kClass, name),
                fmt::format("{}{}/{}", machine.root, kClass, name));
  }
  return writer.result();
}

std::uint32_t first_free_uverbs(const Machine& machine) {
  std::uint32_t first = 0;
  for (const char* directory : {"sys/class/infiniband_verbs", "dev/infiniband"}) {
    for (const std::string& name : names_in(fmt::format("{}{}", machine.root, directory))) {
      std::uint32_t number = 0;
      if (!name.starts_with(kUverbs)) continue;
      const char* const end = name.data() + name.size();
      const auto parsed = std::from_chars(name.data() + kUverbs.size(), end, number);
      if (parsed.ec == std::errc() && parsed.ptr == end) first = std::max(first, number + 1);
    }
  }
  return first;
}

}  // namespace weft::files
