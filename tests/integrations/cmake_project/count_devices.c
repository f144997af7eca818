// Succeeds if libibverbs shows as many devices as the argument says.
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int count = 0;
  struct ibv_device** devices = ibv_get_device_list(&count);
  if (devices == NULL || argc != 2) return 2;
  for (int i = 0; i < count; ++i) puts(ibv_get_device_name(devices[i]));
  ibv_free_device_list(devices);
  return count == atoi(argv[1]) ? 0 : 1;
}
