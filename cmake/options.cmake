# Flags that hold for every target of the project.
add_library(weft_options INTERFACE)
target_include_directories(weft_options INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(weft_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast
  -Wconversion -Wno-sign-conversion -Werror
  # Stacks that every tool can walk, except where a register counts: an 8-byte write is 250
  # instructions in all.
  $<$<NOT:$<CONFIG:Release>>:-fno-omit-frame-pointer>)

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 sees overlaps in std::string that are not there (its bug 105329).
  target_compile_options(weft_options INTERFACE -Wno-restrict)
endif()

set(WEFT_SANITIZE "" CACHE STRING "Sanitizers to build with, for example address,undefined")
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
  if(WEFT_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # gcc warns that tsan does not model atomic_thread_fence; weft pairs every fence with atomics.
    target_compile_options(weft_options INTERFACE -Wno-tsan -Wno-maybe-uninitialized)
  endif()
endif()

if(WEFT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "WEFT_FUZZ needs clang: configure with --preset fuzz")
  endif()
  target_compile_options(weft_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
