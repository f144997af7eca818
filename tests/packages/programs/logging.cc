// A program of somebody else that has its own fmt, spdlog and C++ library, and uses a device. How
// it is linked with them is its build's affair (programs.py).
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace {

int open_one() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (count == 0) throw std::runtime_error("no device");
  ibv_context* const context = ibv_open_device(devices[0]);
  ibv_pd* const pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
  if (pd == nullptr) throw std::runtime_error("no protection domain");
  // What is wrong here goes through weft's own texts, and its log.
  ibv_qp_init_attr impossible{};
  if (ibv_create_qp(pd, &impossible) != nullptr) throw std::logic_error("a queue pair of nothing");
  const std::string name = ibv_get_device_name(devices[0]);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  throw name;  // across a frame of this program, as its own C++ library does it
}

}  // namespace

int main() {
  spdlog::logger log("theirs", std::make_shared<spdlog::sinks::stdout_sink_mt>());
  try {
    return open_one();
  } catch (const std::string& name) {
    log.info("{}", fmt::format("opened {:>8} {:.2f}", name, 0.5));
    return 0;
  } catch (const std::exception& error) {
    log.error("{}", error.what());
    return 1;
  }
}
