# One target per folder: weft_folder(wire base obs) makes the library weft_wire from src/wire/*.cc.
# Left out are main.cc, which belongs to the executable that is made of the folder, and
# interpose*.cc, which take names of the C library: those are for libweft-rdma.so alone.
function(weft_folder name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.h)
  list(FILTER sources EXCLUDE REGEX "/(main|interpose[a-z_]*)\\.cc$")
  if(sources)
    add_library(weft_${name} STATIC ${sources} ${headers})
    set(scope PUBLIC)
  else()
    add_library(weft_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(weft_${name} ${scope} weft_options)
  foreach(lower IN LISTS ARGN)
    target_link_libraries(weft_${name} ${scope} weft_${lower})
  endforeach()
endfunction()
