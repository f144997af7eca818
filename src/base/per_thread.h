// A large object that each thread has for itself, made when the thread first asks for it and
// released when the thread ends. Of the thread's own storage it takes a pointer: what a library has
// there comes out of every thread's stack, and a library that is loaded late gets a few hundred
// bytes of it in all. A thread asks for its own object only; never from a signal handler.
#pragma once

#include <pthread.h>

#include <new>
#include <optional>

namespace weft::base {

/// One object for each T.
template <class T>
class PerThread {
 public:
  /// Null: there is no memory for it.
  static T* get() { return mine_ != nullptr ? mine_ : make(); }
  /// Only where get() has given one.
  static T& known() { return *mine_; }

 private:
  [[gnu::noinline]] static T* make() {
    // A key of the C library's, not an object with a destructor: a destructor of the program's that
    // comes here after ours has run gets a new object, and is followed by ours once more.
    static const std::optional<pthread_key_t> key = [] {
      pthread_key_t made{};
      return pthread_key_create(&made, release) == 0 ? std::optional(made) : std::nullopt;
    }();
    mine_ = new (std::nothrow) T;
    if (mine_ != nullptr && key) pthread_setspecific(*key, mine_);
    return mine_;
  }
  static void release(void*) {
    delete mine_;
    mine_ = nullptr;
  }

  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local T* mine_ = nullptr;
};

}  // namespace weft::base
