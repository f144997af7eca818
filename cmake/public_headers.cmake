# weft_public_headers(folder): include/weft as it is installed, in build/<preset>/include. Results are
# tl::expected, which a program may have too, in another version. So the header that weft is built with
# is installed with weft's, as weft/expected.hpp, in the namespace weft::tl and with macros of its own
# name: the two never meet, and a program needs no package beside weft's. What the library was built
# with has the same layout, as it is the same text; tests/packages/consumer sees that.
function(weft_public_headers folder)
  find_path(expected_folder tl/expected.hpp NO_CACHE REQUIRED)
  file(READ ${expected_folder}/tl/expected.hpp text)
  string(REGEX REPLACE "([^A-Za-z0-9_])TL_" "\\1WEFT_TL_" text "${text}")
  string(REPLACE "namespace tl {" "namespace weft::tl {" text "${text}")
  _weft_write_changed(${folder}/weft/expected.hpp "${text}")
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/weft/*.h)
  foreach(header IN LISTS headers)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(READ ${header} text)
    string(REPLACE "#include <tl/expected.hpp>" "#include \"weft/expected.hpp\"" text "${text}")
    string(REGEX REPLACE "([^A-Za-z0-9_:])tl::" "\\1weft::tl::" text "${text}")
    get_filename_component(name ${header} NAME)
    _weft_write_changed(${folder}/weft/${name} "${text}")
  endforeach()
endfunction()

# What has not changed keeps its time, and so what includes it is not compiled again.
function(_weft_write_changed path text)
  if(EXISTS ${path})
    file(READ ${path} before)
    if(before STREQUAL text)
      return()
    endif()
  endif()
  file(WRITE ${path} "${text}")
endfunction()
