// The part of spdlog that obs/log.cc uses and that is not in its headers, compiled here instead of
// taken from a library: what weft ships brings it along, hidden, and needs no spdlog of a certain
// version where it runs. SPDLOG_COMPILED_LIB, which all of weft is built with, leaves it out
// elsewhere.
#include <spdlog/common-inl.h>
#include <spdlog/details/backtracer-inl.h>
#include <spdlog/details/log_msg-inl.h>
#include <spdlog/details/log_msg_buffer-inl.h>
#include <spdlog/details/os-inl.h>
#include <spdlog/logger-inl.h>
#include <spdlog/pattern_formatter-inl.h>
#include <spdlog/sinks/sink-inl.h>
#include <spdlog/sinks/stdout_sinks-inl.h>

#include <mutex>

template class spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
template class spdlog::sinks::stderr_sink<spdlog::details::console_mutex>;
