// Faults that are planted on purpose (the feature planted-faults), see faults.cpp.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Passes/PassBuilder.h"

namespace mneme {

#ifdef MNEME_PLANTED_FAULTS

/// Lets pipelines use `mneme-fault<KIND>`.
void registerFaults(llvm::PassBuilder &Builder, llvm::PassInstrumentationCallbacks &Callbacks);

/// Breaks the code generation of a module that `mneme-fault<codegen>` has marked.
void breakCodegen(llvm::Module &M);

/// Whether `mneme-fault<assembler>` has marked a module.
bool breaksAssembly(const llvm::Module &M);

#else

inline void registerFaults(llvm::PassBuilder &, llvm::PassInstrumentationCallbacks &) {}
inline void breakCodegen(llvm::Module &) {}
inline bool breaksAssembly(const llvm::Module &) { return false; }

#endif

} // namespace mneme
