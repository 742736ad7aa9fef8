// Functions that differ between the supported versions of LLVM.
#pragma once

#include "llvm/ADT/FloatingPointMode.h"
#include "llvm/Analysis/TypeBasedAliasAnalysis.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/TargetParser/Triple.h"

/// From LLVM 21 on, `OptPassGate`'s methods are const.
#if LLVM_VERSION_MAJOR >= 21
#define MNEME_GATE_CONST const
#else
#define MNEME_GATE_CONST
#endif

namespace mneme {

/// Whether a block ends in a branch or a switch.
inline bool branches(const llvm::Instruction *Terminator) {
#if LLVM_VERSION_MAJOR >= 23
  return llvm::isa<llvm::UncondBrInst, llvm::CondBrInst, llvm::SwitchInst>(Terminator);
#else
  return llvm::isa<llvm::BranchInst, llvm::SwitchInst>(Terminator);
#endif
}

/// Makes 32-bit floating-point operations flush denormals to zeros of the same sign.
inline void flushDenormals(llvm::Function &F) {
#if LLVM_VERSION_MAJOR >= 23
  llvm::DenormalFPEnv Flushed(F.getDenormalFPEnv().DefaultMode, llvm::DenormalMode::getPreserveSign());
  F.addFnAttrs(llvm::AttrBuilder(F.getContext()).addDenormalFPEnvAttr(Flushed));
#else
  F.addFnAttr("denormal-fp-math-f32", "preserve-sign,preserve-sign");
#endif
}

/// Alias analysis by types, without any other.
struct TypesAlone {
#if LLVM_VERSION_MAJOR >= 20
  llvm::TypeBasedAAResult Result{/*UsingTypeSanitizer=*/false};
#else
  llvm::TypeBasedAAResult Result;
#endif
};

/// The number of minimal vectors in a scalable type, as a number of this type.
inline llvm::Value *vscale(llvm::IRBuilder<> &Builder, llvm::Type *Number) {
#if LLVM_VERSION_MAJOR >= 21
  return Builder.CreateVScale(Number);
#else
  return Builder.CreateVScale(llvm::ConstantInt::get(Number, 1));
#endif
}

/// The caller owns the result, which is null if no back end knows the triple.
inline llvm::MCSubtargetInfo *subtarget(const char *Name) {
#if LLVM_VERSION_MAJOR >= 22
  llvm::Triple TheTriple(Name);
#else
  const char *TheTriple = Name;
#endif
  std::string Message;
  const llvm::Target *T = llvm::TargetRegistry::lookupTarget(TheTriple, Message);
  return T ? T->createMCSubtargetInfo(TheTriple, "", "") : nullptr;
}

} // namespace mneme
