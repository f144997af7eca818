// The list of devices: weft's first, then those of the real library.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "base/big_endian.h"
#include "files/path_map.h"
#include "obs/log.h"
#include "shim/errors.h"
#include "shim/objects.h"
#include "shim/real.h"
#include "verbs/shared_device.h"

namespace weft::shim {
namespace {

/// Behind the null that ends a list: the list of the real library that it came from. The list
/// itself begins where its memory begins, since some programs free() it.
ibv_device**& real_part(ibv_device** list) {
  while (*list != nullptr) ++list;
  return *reinterpret_cast<ibv_device***>(list + 1);
}

ibv_device** real_devices(int* count) {
  *count = 0;
  static auto* const get = real(&ibv_get_device_list, "ibv_get_device_list");
  if (get == nullptr) return nullptr;
  const files::TruePaths scope;  // or it would find ours, and no driver for them
  const int kept = errno;
  ibv_device** list = get(count);
  if (list == nullptr) *count = 0;
  errno = kept;
  return list;
}

/// Takes over the descriptor, unless it gives null.
ibv_context* make_context(std::shared_ptr<CommandFile> file, int cmd_fd) {
  ibv_device* const device = file->device();
  const verbs::Device opened = file->opened();
  auto* context = new (std::nothrow) Context(opened, std::move(file));
  if (context == nullptr) return refuse(ENOMEM);
  const auto events = context->events->fd();
  if (!events) {
    delete context;
    return refuse(events.error());
  }
  // Programs make it non-blocking themselves, if they want that.
  fcntl(*events, F_SETFL, fcntl(*events, F_GETFL) & ~O_NONBLOCK);
  set_operations(*context);
  ibv_context& shown = context->abi.context;
  shown.device = device;
  shown.async_fd = *events;
  shown.cmd_fd = cmd_fd;
  shown.num_comp_vectors = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  pthread_mutex_init(&shown.mutex, nullptr);
  return &shown;
}

}  // namespace

std::vector<Device>& devices() {
  static auto& all = *new std::vector<Device>([] {
    std::vector<Device> made(files::shown_devices().size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const files::ShownDevice& weft = files::shown_devices()[i];
      ibv_device& shown = made[i].shown;
      made[i].weft = &weft;
      shown.node_type = IBV_NODE_CA;
      shown.transport_type = IBV_TRANSPORT_IB;
      std::snprintf(shown.name, sizeof shown.name, "%s", weft.name.c_str());
      std::snprintf(shown.dev_name, sizeof shown.dev_name, "uverbs%u", weft.uverbs);
      std::snprintf(shown.dev_path, sizeof shown.dev_path, "/sys/class/infiniband_verbs/uverbs%u",
                    weft.uverbs);
      std::snprintf(shown.ibdev_path, sizeof shown.ibdev_path, "/sys/class/infiniband/%s",
                    weft.name.c_str());
    }
    return made;
  }());
  return all;
}

bool is_ours(const ibv_device* device) {
  const std::vector<Device>& all = devices();
  const auto* at = reinterpret_cast<const Device*>(device);
  return at >= all.data() && at < all.data() + all.size();
}

}  // namespace weft::shim

using weft::shim::CommandFile;
using weft::shim::Context;
using weft::shim::Device;
using weft::shim::is_ours;
using weft::shim::refuse;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  int real_count = 0;
  ibv_device** real = weft::shim::real_devices(&real_count);
  std::vector<Device>& ours = weft::shim::devices();
  const std::size_t total = ours.size() + static_cast<std::size_t>(real_count);
  auto** list = static_cast<ibv_device**>(std::calloc(total + 2, sizeof(ibv_device*)));
  if (list == nullptr) return refuse(ENOMEM);
  std::size_t n = 0;
  for (Device& device : ours) list[n++] = &device.shown;
  for (int i = 0; i < real_count; ++i) list[n++] = real[i];
  weft::shim::real_part(list) = real;
  if (count != nullptr) *count = static_cast<int>(total);
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  if (list == nullptr) return;
  ibv_device** const real = weft::shim::real_part(list);
  static auto* const free_real = weft::shim::real(&ibv_free_device_list, "ibv_free_device_list");
  if (real != nullptr && free_real != nullptr) free_real(real);
  std::free(list);
}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

__be64 ibv_get_device_guid(ibv_device* device) {
  if (!is_ours(device)) WEFT_PASS_ON(ibv_get_device_guid, 0, device);
  return htobe64(Device::of(device).weft->guid);
}

/// The kernel, which programs ask about an index through a netlink socket, knows none of ours.
int ibv_get_device_index(ibv_device* device) {
  if (!is_ours(device)) WEFT_PASS_ON(ibv_get_device_index, -1, device);
  return -1;
}

ibv_context* ibv_open_device(ibv_device* device) {
  if (!is_ours(device)) WEFT_PASS_ON(ibv_open_device, nullptr, device);
  auto opened =
      weft::verbs::open_shared(Device::of(device).weft->name, Device::of(device).weft->address);
  if (!opened) {
    weft::obs::log().error("{}: {}", device->name, opened.error().message);
    return refuse(opened.error());
  }
  int fd = -1;
  auto file = CommandFile::make(device, *opened, &fd);
  if (file == nullptr) return nullptr;
  ibv_context* const context = weft::shim::make_context(std::move(file), fd);
  if (context == nullptr) close(fd);
  return context;
}

int ibv_close_device(ibv_context* context) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_close_device, ENOSYS, context);
  if (context->cmd_fd >= 0) close(context->cmd_fd);
  pthread_mutex_destroy(&context->mutex);
  delete &Context::of(context);
  return 0;
}

ibv_context* ibv_import_device(int cmd_fd) {
  if (!CommandFile::is_one(cmd_fd)) {
    WEFT_PASS_ON(ibv_import_device, refuse(EOPNOTSUPP), cmd_fd);
  }
  auto file = CommandFile::find(cmd_fd);
  if (file == nullptr) {
    if (weft::shim::explaining()) {
      weft::shim::explain_call(
          "ibv_import_device", "a descriptor of weft's",
          {weft::Errc::kNotSupported,
           "cmd_fd: it comes from another process; weft shares objects between contexts of one"});
    }
    return refuse(EOPNOTSUPP);
  }
  return weft::shim::make_context(std::move(file), cmd_fd);
}

}  // extern "C"
