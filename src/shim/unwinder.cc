// A thread that is cancelled is unwound by the C library's unwinder, through our frames too; for
// these it calls functions of the unwinder that libweft-rdma.so brings along. They know the sizes
// of registers only after that one has run once itself, and would abort: so it runs when we are
// loaded.
#include <unwind.h>

namespace weft::shim {
namespace {

[[gnu::constructor]] void prepare_unwinder() {
  const auto stop = [](_Unwind_Context*, void*) { return _URC_END_OF_STACK; };
  _Unwind_Backtrace(stop, nullptr);
}

}  // namespace
}  // namespace weft::shim
