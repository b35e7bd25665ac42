# find_package(Accord), then target_link_libraries(program Accord::OpenACC): OpenACC by GCC, with Accord's headers, module and
# library, in C, C++ and Fortran.

get_filename_component(ACCORD_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(ACCORD_INCLUDE_DIR "${ACCORD_PREFIX}/include/accord")
set(ACCORD_LIBRARY "${ACCORD_PREFIX}/lib/libacc.so")

foreach(_accord_language C CXX Fortran)
  if(CMAKE_${_accord_language}_COMPILER_ID AND NOT CMAKE_${_accord_language}_COMPILER_ID STREQUAL "GNU")
    set(Accord_FOUND FALSE)
    set(Accord_NOT_FOUND_MESSAGE
      "Accord runs what GCC compiles; the ${_accord_language} compiler is ${CMAKE_${_accord_language}_COMPILER_ID}")
    return()
  endif()
endforeach()

# Compiled modules belong to one version of gfortran.
set(_accord_fortran "")
if(CMAKE_Fortran_COMPILER)
  set(_accord_modules "${CMAKE_BINARY_DIR}/accord-modules-${CMAKE_Fortran_COMPILER_VERSION}")
  file(MAKE_DIRECTORY "${_accord_modules}")
  execute_process(
    COMMAND "${CMAKE_Fortran_COMPILER}" -fopenacc -fsyntax-only -w "-J${_accord_modules}" "-I${ACCORD_INCLUDE_DIR}"
      "${ACCORD_INCLUDE_DIR}/openacc.f90"
    WORKING_DIRECTORY "${_accord_modules}" RESULT_VARIABLE _accord_failed ERROR_VARIABLE _accord_said)
  if(_accord_failed)
    set(Accord_FOUND FALSE)
    set(Accord_NOT_FOUND_MESSAGE "${CMAKE_Fortran_COMPILER} can't compile the module openacc: ${_accord_said}")
    return()
  endif()
  set(_accord_fortran "$<$<COMPILE_LANGUAGE:Fortran>:-I${_accord_modules}>")
endif()

if(NOT TARGET Accord::OpenACC)
  add_library(Accord::OpenACC INTERFACE IMPORTED)
  set_target_properties(Accord::OpenACC PROPERTIES
    # Optimized, GCC would answer acc_on_device itself: as the host, also on CPU devices.
    # No system directory: those come after the program's own, which may have another openacc.h.
    INTERFACE_COMPILE_OPTIONS
      "$<$<COMPILE_LANGUAGE:C,CXX,Fortran>:-fopenacc>;$<$<COMPILE_LANGUAGE:C,CXX>:-fno-builtin-acc_on_device>;$<$<COMPILE_LANGUAGE:C,CXX,Fortran>:-I${ACCORD_INCLUDE_DIR}>;${_accord_fortran}"
    # Options come ahead of all libraries: libacc has to be found before libgomp, which -fopenacc brings.
    INTERFACE_LINK_OPTIONS
      "-fopenacc;-Wl,--push-state,--no-as-needed,${ACCORD_LIBRARY},--pop-state;-Wl,-rpath,${ACCORD_PREFIX}/lib")
endif()
