// The functions behind the interposed ones: the C library's own, or those of another preloaded
// library that comes after ours. Found at the first call, which may be before main and before any
// constructor; any thread.
#pragma once

#include <atomic>
#include <cerrno>
#include <type_traits>

namespace weft::files {

/// The next function of that name, null if there is none.
void* next_symbol(const char* name);

/// static constinit Next<int(int)> next_close{"close"};
template <class Function>
class Next;

template <class Value, class... Arguments>
class Next<Value(Arguments...)> {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  /// Without such a function -1 and ENOSYS, or null.
  Value operator()(Arguments... arguments) {
    // relaxed: whoever comes first finds the same address.
    auto* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) [[unlikely]] {
      function = reinterpret_cast<Value (*)(Arguments...)>(next_symbol(name_));
      if (function == nullptr) return missing();
      function_.store(function, std::memory_order_relaxed);
    }
    return function(arguments...);
  }

 private:
  static Value missing() {
    errno = ENOSYS;
    if constexpr (std::is_pointer_v<Value>) {
      return nullptr;
    } else if constexpr (!std::is_void_v<Value>) {
      return Value(-1);
    }
  }

  const char* name_;
  std::atomic<Value (*)(Arguments...)> function_{nullptr};
};

}  // namespace weft::files
