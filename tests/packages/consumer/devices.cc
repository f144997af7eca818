// A program written for libibverbs, which finds weft's device because it links libweft-rdma.so.
#include <infiniband/verbs.h>

#include <cstdio>

int main() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (devices == nullptr || count == 0) return std::puts("no device"), 1;
  ibv_context* const context = ibv_open_device(devices[0]);
  if (context == nullptr) return std::puts("not opened"), 2;
  ibv_pd* const pd = ibv_alloc_pd(context);
  if (pd == nullptr) return std::puts("no protection domain"), 3;
  std::printf("opened %s\n", ibv_get_device_name(devices[0]));
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  return 0;
}
