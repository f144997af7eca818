# weft_self_contained(target): what is shipped to run anywhere brings the C++ library along. A program
# may have another version of it, and a container none. Of it and of weft only what is used is kept; a
# part that is not would need a newer C library. What is brought along stays hidden: a library needs a
# version script besides, see weft_exports(). A sanitizer's runtime wants the shared one.
function(weft_self_contained target)
  if(NOT WEFT_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  endif()
endfunction()

# weft_exports(target map): the library exports what `map` names, and nothing else.
function(weft_exports target map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${map})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${map})
endfunction()
