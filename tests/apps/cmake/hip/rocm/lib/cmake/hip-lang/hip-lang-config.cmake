# What CMake's HIP language asks of a ROCm installation, for HIP of Debian 12 with clang 19:
#     -DCMAKE_HIP_COMPILER_ROCM_ROOT=<the folder that has this lib/cmake>
#     -DCMAKE_HIP_FLAGS=--rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode
# Debian's own package file is in lib/x86_64-linux-gnu, where CMake 3.25 does not look for it, and adds -isystem
# /usr/include, after which clang finds no math.h.
if(NOT TARGET hip-lang::amdhip64)
  find_library(HIP_RUNTIME_LIBRARY amdhip64 PATH_SUFFIXES x86_64-linux-gnu REQUIRED)
  mark_as_advanced(HIP_RUNTIME_LIBRARY)
  add_library(hip-lang::amdhip64 SHARED IMPORTED)
  set_target_properties(hip-lang::amdhip64 PROPERTIES IMPORTED_LOCATION "${HIP_RUNTIME_LIBRARY}")
  add_library(hip-lang::device INTERFACE IMPORTED)
  set_property(TARGET hip-lang::device PROPERTY INTERFACE_LINK_LIBRARIES hip-lang::amdhip64)
endif()
set(_CMAKE_HIP_DEVICE_RUNTIME_TARGET "hip-lang::device")
