// For Doxygen alone: its first page, and the namespaces of others that the public headers add to.
#pragma once

/// @mainpage The public headers
///
/// `weft/verbs.h` is RDMA for C++ programs, in the words of libibverbs: weft::verbs::Device,
/// weft::verbs::ProtectionDomain, weft::verbs::QueuePair, weft::verbs::CompletionQueue.
///
/// `weft/channel.h` has messages over RDMA: weft::channel::Context, weft::channel::Listener,
/// weft::channel::Channel, and weft::channel::Settings for all that can be set.
///
/// `weft/arena.h` has memory that peers on the same host reach directly: weft::Arena.
///
/// Calls that can fail give a weft::Result, which has a value or a weft::Error.

/// Verbs: devices, memory, queue pairs, completions.
namespace weft::verbs {}
/// Messages through buffers that grow with the traffic of each connection.
namespace weft::channel {}
/// What both interfaces share.
namespace weft {}
/// The C++ library's.
namespace std {}
/// Of the header <tl/expected.hpp>.
namespace tl {}
