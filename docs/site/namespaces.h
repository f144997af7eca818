// For Doxygen alone: namespaces of others that the public headers add to.
#pragma once
/// The C++ library's.
namespace std {}
/// Of the header <tl/expected.hpp>.
namespace tl {}
