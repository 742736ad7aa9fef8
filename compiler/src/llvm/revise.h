// Declarations shared by the revisions in reduce.cpp, undefined.cpp and overlaps.cpp.
#pragma once

#include <cstdlib>
#include <cstring>

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instruction.h"
#include "llvm/Support/raw_ostream.h"

namespace mneme {

/// Copies text for Rust, which frees it.
inline char *copy(llvm::StringRef Text) {
  char *Copy = static_cast<char *>(std::malloc(Text.size() + 1));
  std::memcpy(Copy, Text.data(), Text.size());
  Copy[Text.size()] = 0;
  return Copy;
}

/// A line about an instruction and where it is.
inline void describe(llvm::raw_ostream &Lines, const llvm::Instruction &I) {
  std::string Words;
  llvm::raw_string_ostream(Words) << I;
  llvm::StringRef Text = llvm::StringRef(Words).trim();
  Lines << "'" << Text.take_front(Text.find(", !")) << "' in " << I.getFunction()->getName();
  if (const llvm::DebugLoc &Place = I.getDebugLoc())
    Lines << ", " << llvm::cast<llvm::DIScope>(Place.getScope())->getFilename() << ":" << Place.getLine();
  Lines << "\n";
}

} // namespace mneme
