// HIP before 6.4 expects clang to define the number of lanes per wave. clang 22 no longer does.
#pragma once
#if !defined(__AMDGCN_WAVEFRONT_SIZE)
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define __AMDGCN_WAVEFRONT_SIZE 32
#else
#define __AMDGCN_WAVEFRONT_SIZE 64
#endif
#endif
