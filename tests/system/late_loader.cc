// A program that knows nothing of RDMA until it loads it, as interpreters do: opens a library, then
// a module that uses it, and calls the module's main(), in a thread that was there before. All is
// closed and opened again once. Started by loading_test.cc.
#include <dlfcn.h>
#include <semaphore.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

void* open_or_stop(const char* path, int flags) {
  void* const handle = dlopen(path, flags);
  if (handle == nullptr) {
    std::printf("%s\n", dlerror());
    std::exit(1);
  }
  return handle;
}

}  // namespace

/// late_loader library module argument...
int main(int count, char** arguments) {
  if (count < 3) return 2;
  sem_t loaded, done;
  sem_init(&loaded, 0, 0);
  sem_init(&done, 0, 0);
  int (*run)(int, char**) = nullptr;
  int failed = 0;
  constexpr int kTimes = 2;
  std::thread earlier([&] {
    for (int i = 0; i < kTimes; ++i) {
      sem_wait(&loaded);
      failed |= run(count - 2, arguments + 2);
      sem_post(&done);
    }
  });
  for (int i = 0; i < kTimes; ++i) {
    void* const library = open_or_stop(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    void* const module = open_or_stop(arguments[2], RTLD_NOW | RTLD_LOCAL);
    run = reinterpret_cast<int (*)(int, char**)>(dlsym(module, "main"));
    if (run == nullptr) std::abort();
    sem_post(&loaded);
    sem_wait(&done);
    dlclose(module);
    dlclose(library);
  }
  earlier.join();
  return failed;
}
