// Declarations shared by the revisions in reduce.cpp and undefined.cpp.
#pragma once

#include <cstdlib>
#include <cstring>

#include "llvm/ADT/StringRef.h"

namespace mneme {

/// Copies text for Rust, which frees it.
inline char *copy(llvm::StringRef Text) {
  char *Copy = static_cast<char *>(std::malloc(Text.size() + 1));
  std::memcpy(Copy, Text.data(), Text.size());
  Copy[Text.size()] = 0;
  return Copy;
}

} // namespace mneme
