# weft_manuals: the manual pages (build/.../man/*.1) and the completions for bash, zsh and fish
# (build/.../completions/), made by weft-reference from what --help says. Without scdoc there are no
# manual pages; what cannot be run here, because it is for another architecture, makes nothing.
weft_folder(reference base usage)
add_executable(weft-reference reference/main.cc)
target_link_libraries(weft-reference PRIVATE weft_reference weft_cli)
foreach(target weft_reference weft-reference)
  target_compile_options(${target} PRIVATE -O0)
endforeach()
set_target_properties(weft_reference PROPERTIES UNITY_BUILD_BATCH_SIZE 0)
set_target_properties(weft-reference PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)  # it is not for users

find_program(SCDOC_PROGRAM scdoc)
set(reference ${CMAKE_BINARY_DIR}/reference)
set(manual_stamp ${reference}/stamp)
set(manual_commands)
if(SCDOC_PROGRAM)
  set(manual_commands COMMAND ${CMAKE_COMMAND} -DSCDOC=${SCDOC_PROGRAM} -DFROM=${reference}/man
    -DTO=${CMAKE_BINARY_DIR}/man -P ${PROJECT_SOURCE_DIR}/cmake/write_manuals.cmake)
endif()
add_custom_command(OUTPUT ${manual_stamp}
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${reference} ${CMAKE_BINARY_DIR}/man
    ${CMAKE_BINARY_DIR}/completions
  COMMAND weft-reference ${reference}
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${reference}/completions
    ${CMAKE_BINARY_DIR}/completions
  ${manual_commands}
  COMMAND ${CMAKE_COMMAND} -E touch ${manual_stamp}
  DEPENDS weft-reference ${PROJECT_SOURCE_DIR}/cmake/write_manuals.cmake
  COMMENT "Writing manual pages and completions" VERBATIM)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  add_custom_target(weft_manuals)
else()
  add_custom_target(weft_manuals ALL DEPENDS ${manual_stamp})
endif()

set(completions ${CMAKE_BINARY_DIR}/completions)
set(destination_bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
set(destination_zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
set(destination_fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
foreach(shell bash zsh fish)
  install(DIRECTORY ${completions}/${shell}/ DESTINATION ${destination_${shell}} OPTIONAL)
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
