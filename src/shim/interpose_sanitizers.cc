// What a sanitizer's runtime asks a program for at its start: defaults, which the user's own
// options replace. Gcc's runtimes are libraries behind this one, so they find these. In a program
// of clang's, or one that has such a function itself, that one is found; `weft run` gives the same
// options in the environment (cli/sanitizer_options.cc).
extern "C" {

// A preloaded library comes before the runtime, which by default refuses to start then: it fears
// for the functions that it stands before. Ours hand each call on to the next one, which is its
// own.
const char* __asan_default_options() { return "verify_asan_link_order=0"; }

// To this sanitizer, what our threads do to our own memory and files has no order. And a program of
// one thread has more than one on weft: its children may have, too.
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1:die_after_fork=0"; }

}  // extern "C"
