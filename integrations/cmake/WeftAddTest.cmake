# weft_add_test: a CTest test whose program sees weft's RDMA devices.
#
#   find_package(weft REQUIRED)             # or include() this file, with weft on the PATH
#   weft_add_test(NAME transfer COMMAND transfer_test --size 64)
#   weft_add_test(NAME transfer.lossy COMMAND transfer_test FAULTS loss=1% SEED 7)
#   weft_add_test(NAME two_ports COMMAND ports_test DEVICES weft0 weft1=127.0.0.7)
#
#   NAME name               the name of the test
#   COMMAND program args... as in add_test(): a target of the project, or a program
#   DEVICES device...       NAME[=ADDRESS], as `weft run --device` has it; weft0 if none is given
#   LINK_LAYER roce|ib      what the ports seem to be
#   FAULTS spec [SEED n]    faults on the frames, as `weft run --faults` has them
#   PCAP file               records all frames there
#   EXPLAIN                 a paragraph for each work request that fails
#   WORKING_DIRECTORY, CONFIGURATIONS   as in add_test()
#
# All tests may run side by side (`ctest -j`), as long as their programs agree on different TCP
# ports: weft itself needs none.
include_guard(GLOBAL)

function(weft_add_test)
  set(flags EXPLAIN)
  set(single NAME LINK_LAYER FAULTS SEED PCAP WORKING_DIRECTORY)
  set(several COMMAND DEVICES CONFIGURATIONS)
  cmake_parse_arguments(PARSE_ARGV 0 test "${flags}" "${single}" "${several}")
  if(NOT test_NAME OR NOT test_COMMAND)
    message(FATAL_ERROR "weft_add_test: NAME and COMMAND are needed, for example\n"
      "  weft_add_test(NAME transfer COMMAND transfer_test)")
  endif()
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_add_test(NAME ${test_NAME} ...): it is not known what these mean: "
      "${test_UNPARSED_ARGUMENTS}")
  endif()
  if(DEFINED test_SEED AND NOT DEFINED test_FAULTS)
    message(FATAL_ERROR "weft_add_test(NAME ${test_NAME} ...): SEED is for FAULTS, which are missing")
  endif()

  if(TARGET weft::weft)
    set(weft $<TARGET_FILE:weft::weft>)
  else()
    find_program(WEFT_COMMAND weft DOC "The weft command, which runs tests on emulated RDMA devices")
    if(NOT WEFT_COMMAND)
      message(FATAL_ERROR "weft_add_test: there is no weft command on the PATH. Install weft, or "
        "configure with -DWEFT_COMMAND=/where/it/is/bin/weft")
    endif()
    set(weft ${WEFT_COMMAND})
  endif()

  set(options)
  foreach(device IN LISTS test_DEVICES)
    list(APPEND options --device ${device})
  endforeach()
  foreach(option LINK_LAYER FAULTS SEED PCAP)
    if(DEFINED test_${option})
      string(TOLOWER ${option} name)
      string(REPLACE _ - name ${name})
      list(APPEND options --${name} ${test_${option}})
    endif()
  endforeach()
  if(test_EXPLAIN)
    list(APPEND options --explain)
  endif()

  list(POP_FRONT test_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  set(further)
  if(test_WORKING_DIRECTORY)
    list(APPEND further WORKING_DIRECTORY ${test_WORKING_DIRECTORY})
  endif()
  if(test_CONFIGURATIONS)
    list(APPEND further CONFIGURATIONS ${test_CONFIGURATIONS})
  endif()
  add_test(NAME ${test_NAME} COMMAND ${weft} run ${options} -- ${program} ${test_COMMAND} ${further})
endfunction()
