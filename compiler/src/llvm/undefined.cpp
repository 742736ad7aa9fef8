// Makes undefined behaviour of a kernel visible: values that are never set become the same byte everywhere, and
// arithmetic without a defined result ends the kernel. revise.rs describes the contract.

#include "revise.h"

#include "llvm-c/Core.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/CBindingWrapping.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace {

bool isCheckable(Instruction &I) {
  if (auto *Assumption = dyn_cast<AssumeInst>(&I))
    return !isa<ConstantInt>(Assumption->getArgOperand(0));
  if (isa<UnreachableInst>(I)) {
    // After a call that does not return, it is not a claim by the source.
    auto *Before = dyn_cast_or_null<CallInst>(I.getPrevNode());
    return !Before || !Before->doesNotReturn();
  }
  auto *Operation = dyn_cast<BinaryOperator>(&I);
  if (!Operation || !Operation->getType()->isIntegerTy())
    return false;
  switch (Operation->getOpcode()) {
  case Instruction::Add:
  case Instruction::Sub:
  case Instruction::Mul:
    return Operation->hasNoSignedWrap();
  case Instruction::Shl:
  case Instruction::LShr:
  case Instruction::AShr:
    return !isa<ConstantInt>(Operation->getOperand(1));
  case Instruction::UDiv:
  case Instruction::SDiv:
  case Instruction::URem:
  case Instruction::SRem:
    return !isa<ConstantInt>(Operation->getOperand(1)) || cast<ConstantInt>(Operation->getOperand(1))->isMinusOne();
  default:
    return false;
  }
}

/// The condition under which an instruction has no defined result.
Value *undefined(IRBuilder<> &Builder, Instruction &I) {
  if (auto *Assumption = dyn_cast<AssumeInst>(&I))
    return Builder.CreateNot(Assumption->getArgOperand(0));
  if (isa<UnreachableInst>(I))
    return nullptr;
  Value *Left = I.getOperand(0), *Right = I.getOperand(1);
  auto *T = cast<IntegerType>(I.getType());
  auto Overflows = [&](Intrinsic::ID ID) {
    return Builder.CreateExtractValue(Builder.CreateBinaryIntrinsic(ID, Left, Right), 1);
  };
  switch (I.getOpcode()) {
  case Instruction::Add: return Overflows(Intrinsic::sadd_with_overflow);
  case Instruction::Sub: return Overflows(Intrinsic::ssub_with_overflow);
  case Instruction::Mul: return Overflows(Intrinsic::smul_with_overflow);
  case Instruction::Shl:
  case Instruction::LShr:
  case Instruction::AShr: return Builder.CreateICmpUGE(Right, ConstantInt::get(T, T->getBitWidth()));
  default: {
    Value *ByZero = Builder.CreateICmpEQ(Right, ConstantInt::get(T, 0));
    if (I.getOpcode() == Instruction::UDiv || I.getOpcode() == Instruction::URem)
      return ByZero;
    Value *Least = Builder.CreateICmpEQ(Left, ConstantInt::get(T, APInt::getSignedMinValue(T->getBitWidth())));
    Value *MinusOne = Builder.CreateICmpEQ(Right, ConstantInt::getAllOnesValue(T));
    return Builder.CreateOr(ByZero, Builder.CreateAnd(Least, MinusOne));
  }
  }
}

void check(Instruction &I) {
  IRBuilder<> Builder(&I);
  Value *Condition = undefined(Builder, I);
  Instruction *Before = Condition ? SplitBlockAndInsertIfThen(Condition, I.getIterator(), true) : &I;
  IRBuilder<>(Before).CreateIntrinsic(Intrinsic::trap, ArrayRef<Type *>(), ArrayRef<Value *>());
}

} // namespace

extern "C" {

/// Makes instructions that may have no defined result end the kernel if they have none: those from `From` up to, but
/// not including, `To`. Returns all such instructions, one per line (the caller frees the text).
char *mneme_llvm_trap_undefined(LLVMModuleRef Raw, uint64_t From, uint64_t To) {
  Module &M = *unwrap(Raw);
  std::vector<Instruction *> Found;
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      if (isCheckable(I))
        Found.push_back(&I);
  std::string Text;
  raw_string_ostream Stream(Text);
  for (Instruction *I : Found) {
    std::string Words;
    raw_string_ostream(Words) << *I;
    Stream << "'" << StringRef(Words).trim() << "' in " << I->getFunction()->getName();
    if (const DebugLoc &Place = I->getDebugLoc())
      Stream << ", " << cast<DIScope>(Place.getScope())->getFilename() << ":" << Place.getLine();
    Stream << "\n";
  }
  for (uint64_t At = From; At < std::min<uint64_t>(To, Found.size()); ++At)
    check(*Found[At]);
  return mneme::copy(Text);
}

/// Removes the fast-math flags from floating-point instructions, or flags that promise something from the others.
void mneme_llvm_forget_flags(LLVMModuleRef Raw, int FastMath) {
  for (Function &F : *unwrap(Raw))
    for (Instruction &I : instructions(F))
      if (!isa<FPMathOperator>(I)) {
        if (!FastMath)
          I.dropPoisonGeneratingFlags();
      } else if (FastMath)
        I.copyFastMathFlags(FastMathFlags());
}

/// Fills local variables with a byte before anything else happens.
void mneme_llvm_fill_locals(LLVMModuleRef Raw, uint8_t Byte) {
  Module &M = *unwrap(Raw);
  for (Function &F : M) {
    std::vector<AllocaInst *> Locals;
    for (Instruction &I : instructions(F))
      if (auto *Local = dyn_cast<AllocaInst>(&I); Local && Local->isStaticAlloca())
        Locals.push_back(Local);
    for (AllocaInst *Local : Locals) {
      IRBuilder<> Builder(Local->getNextNode());
      uint64_t Size = M.getDataLayout().getTypeAllocSize(Local->getAllocatedType());
      auto *Count = cast<ConstantInt>(Local->getArraySize());
      Builder.CreateMemSet(Local, Builder.getInt8(Byte), Size * Count->getZExtValue(), Local->getAlign());
    }
  }
}

} // extern "C"
