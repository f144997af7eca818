// A program that is built with the thread sanitizer: it sees no order of memory through a library
// that is not, so a thread that polls would seem to race with the one that posted. Where that
// runtime is in the process, posts and polls tell it. Elsewhere nothing changes: the functions that
// tell take the places of others when an object is made. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace weft::shim {

/// To be called when the functions are set.
void tell_thread_sanitizer(ibv_context_ops& operations);
void tell_thread_sanitizer(ibv_qp_ex& qp);
void tell_thread_sanitizer(ibv_cq_ex& cq);

}  // namespace weft::shim
