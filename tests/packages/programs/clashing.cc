// A program with functions of the same names as those of fmt, spdlog and the C++ library, visible
// to every library, as another version of them would be. Whoever of weft's takes one of them ends
// here.
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>

extern "C" {

#define TRAP(name)                                        \
  [[gnu::used, gnu::visibility("default")]] void name() { \
    std::fputs(#name " was called\n", stderr);            \
    std::abort();                                         \
  }
TRAP(
    _ZN3fmt2v97vformatB5cxx11ENS0_17basic_string_viewIcEENS0_17basic_format_argsINS0_20basic_format_contextINS0_8appenderEcEEEE)
TRAP(_ZN3fmt2v96detail18throw_format_errorEPKc)
TRAP(_ZN6spdlog6logger7log_it_ERKNS_7details7log_msgEbb)
TRAP(_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm)
TRAP(_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm)
TRAP(_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE)
TRAP(_Znwm)
TRAP(_ZdlPvm)
TRAP(__cxa_throw)
TRAP(__cxa_begin_catch)
TRAP(__cxa_guard_acquire)
TRAP(_Unwind_RaiseException)
#undef TRAP
}

int main() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (count == 0) return 1;
  ibv_context* const context = ibv_open_device(devices[0]);
  if (context == nullptr) return 2;
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_qp_init_attr impossible{};
  if (ibv_create_qp(pd, &impossible) != nullptr) return 3;
  std::printf("opened %s\n", ibv_get_device_name(devices[0]));
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  return 0;
}
