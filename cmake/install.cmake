# What `cmake --install` puts where; `make install` and the packages are made of it. All of it may be
# moved afterwards: the command finds its library, and the files for CMake and pkg-config find the
# headers, relative to themselves.
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)

weft_public_headers(${PROJECT_BINARY_DIR}/include)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# weft::verbs is libweft.so, weft::channel libweft-channel.so, weft::rdma what `weft run` preloads.
set(libraries weft_shared weft_channel_shared weft_rdma)
set_target_properties(weft_shared PROPERTIES EXPORT_NAME verbs)
set_target_properties(weft_channel_shared PROPERTIES EXPORT_NAME channel)
set_target_properties(weft_rdma PROPERTIES EXPORT_NAME rdma)
foreach(library IN LISTS libraries)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${library} INTERFACE cxx_std_20)
endforeach()
install(TARGETS ${libraries} EXPORT weft LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS weft weft-channel RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft NAMESPACE weft:: FILE weft-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/weft-config.cmake.in
  ${PROJECT_BINARY_DIR}/weft-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake
  ${PROJECT_BINARY_DIR}/weft-config-version.cmake
  ${PROJECT_SOURCE_DIR}/integrations/cmake/WeftAddTest.cmake DESTINATION ${package_folder})
install(FILES ${PROJECT_SOURCE_DIR}/integrations/pytest/pytest_weft.py
  DESTINATION ${CMAKE_INSTALL_DATADIR}/weft/pytest)

# weft_pkg_config(name library description): the same for pkg-config.
function(weft_pkg_config name library description)
  set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH up /${folder} /)
  string(REGEX REPLACE "/$" "" up ${up})
  set(pc_name ${name})
  set(pc_library ${library})
  set(pc_description ${description})
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/weft.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${folder})
endfunction()
weft_pkg_config(weft-verbs weft "weft's verbs: RDMA for C++ programs, in user space")
weft_pkg_config(weft-channel weft-channel "Messages over RDMA through buffers that grow by need")
weft_pkg_config(weft-rdma weft-rdma "RDMA devices in user space, for programs that use libibverbs")

install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.cc" PATTERN "*.topo" PATTERN "*.topo.weft")
