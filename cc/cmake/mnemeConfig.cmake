# add_mneme(<target>...): makes the kernels of a target recordable, by putting Mneme's launcher in front of its compilers.
#
#     find_package(mneme REQUIRED)
#     add_executable(app app.cu)
#     add_mneme(app)
#
# Configure with -DCMAKE_PREFIX_PATH=$(mneme config cmakedir). MNEME_COMPILER_LAUNCHER overrides the launcher that is found.

include_guard(GLOBAL)

# This file is in lib/cmake/mneme of an installation, or in cmake/mneme of the folder that cargo builds in.
find_program(MNEME_COMPILER_LAUNCHER mneme-cc
  HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../bin" "${CMAKE_CURRENT_LIST_DIR}/../.."
  DOC "Mneme's compiler launcher")
mark_as_advanced(MNEME_COMPILER_LAUNCHER)

if(NOT MNEME_COMPILER_LAUNCHER)
  set(mneme_FOUND FALSE)
  set(mneme_NOT_FOUND_MESSAGE "mneme-cc was not found; set MNEME_COMPILER_LAUNCHER to its path")
  return()
endif()

# Sets <result> to TRUE if a command line starts or continues with a program of Mneme.
function(_mneme_has_launcher result)
  set(${result} FALSE PARENT_SCOPE)
  foreach(part IN LISTS ARGN)
    get_filename_component(name "${part}" NAME)
    if(name MATCHES "^mneme-(cc|clang|clang\\+\\+)$")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

function(add_mneme)
  foreach(target IN LISTS ARGN)
    if(NOT TARGET "${target}")
      message(FATAL_ERROR "add_mneme: there is no target '${target}'; call it after add_executable or add_library")
    endif()
    get_target_property(aliased "${target}" ALIASED_TARGET)
    if(aliased)
      set(target "${aliased}")
    endif()
    foreach(language IN ITEMS CUDA HIP CXX)
      get_target_property(launcher "${target}" ${language}_COMPILER_LAUNCHER)
      if(NOT launcher)
        set(launcher "")
      endif()
      # One launcher per compilation: none if the compiler is Mneme's wrapper, or if the launcher is already set.
      _mneme_has_launcher(present ${launcher} "${CMAKE_${language}_COMPILER}")
      if(NOT present)
        set_property(TARGET "${target}" PROPERTY ${language}_COMPILER_LAUNCHER "${MNEME_COMPILER_LAUNCHER}" ${launcher})
      endif()
    endforeach()
  endforeach()
endfunction()

# mneme::mnemert, or mnemert for short: the headers of the annotations. It has no library.
if(NOT TARGET mneme::mnemert)
  add_library(mneme::mnemert INTERFACE IMPORTED GLOBAL)
  foreach(include IN ITEMS "${CMAKE_CURRENT_LIST_DIR}/../../../include" "${CMAKE_CURRENT_LIST_DIR}/../../include")
    if(EXISTS "${include}/mneme.h")
      set_property(TARGET mneme::mnemert PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${include}")
      # A source file, because modules are compiled with the program that uses them.
      set(mneme_FORTRAN_MODULE "${include}/mneme.f90")
      break()
    endif()
  endforeach()
  add_library(mnemert ALIAS mneme::mnemert)
endif()
