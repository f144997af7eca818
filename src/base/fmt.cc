// The part of fmt that is not in its headers, compiled here instead of taken from a library: what
// weft ships brings it along, hidden, and needs no fmt of a certain version where it runs. Where
// FMT_HEADER_ONLY is set (see src/CMakeLists.txt) all of fmt is in its headers.
#include <fmt/format.h>

#if !defined(FMT_HEADER_ONLY)
#include <fmt/format-inl.h>

// What fmt/format.h declares as compiled elsewhere, and what it calls without a definition.
FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
}  // namespace detail
FMT_END_NAMESPACE
#endif
