// Makes undefined behaviour of a kernel visible: values that are never set become the same byte everywhere, and
// arithmetic without a defined result ends the kernel. revise.rs describes the contract.

#include "revise.h"

#include "llvm-c/Core.h"
#include "llvm/IR/Constants.h"
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

bool isExact(Instruction &I) { return isa<PossiblyExactOperator>(I) && I.isExact(); }

/// What fast-math flags promise: that no operand and no result is NaN or infinite.
bool promisesNumbers(Instruction &I) {
  return isa<FPMathOperator>(I) && !isa<CallBase>(I) && !isa<PHINode>(I) && !isa<SelectInst>(I) &&
         I.getOperand(0)->getType()->isFloatingPointTy() && (I.hasNoNaNs() || I.hasNoInfs());
}

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
    return Operation->hasNoSignedWrap() || Operation->hasNoUnsignedWrap();
  case Instruction::Shl:
    if (Operation->hasNoSignedWrap() || Operation->hasNoUnsignedWrap())
      return true;
    [[fallthrough]];
  case Instruction::LShr:
  case Instruction::AShr:
    return !isa<ConstantInt>(Operation->getOperand(1)) || isExact(I);
  case Instruction::UDiv:
  case Instruction::SDiv:
  case Instruction::URem:
  case Instruction::SRem:
    return !isa<ConstantInt>(Operation->getOperand(1)) || cast<ConstantInt>(Operation->getOperand(1))->isMinusOne() ||
           isExact(I);
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
  auto Overflows = [&](Intrinsic::ID Signed, Intrinsic::ID Unsigned) {
    Value *Any = Builder.getFalse();
    auto Add = [&](Intrinsic::ID ID) {
      Any = Builder.CreateOr(Any, Builder.CreateExtractValue(Builder.CreateBinaryIntrinsic(ID, Left, Right), 1));
    };
    if (I.hasNoSignedWrap())
      Add(Signed);
    if (I.hasNoUnsignedWrap())
      Add(Unsigned);
    return Any;
  };
  // By a distance or divisor that is safe.
  auto Changes = [&](Instruction::BinaryOps There, Instruction::BinaryOps Back, Value *Wrong) {
    Value *Safe = Builder.CreateSelect(Wrong, ConstantInt::get(T, 1), Right);
    Value *Result = Builder.CreateBinOp(There, Left, Safe);
    return Builder.CreateOr(Wrong, Builder.CreateICmpNE(Builder.CreateBinOp(Back, Result, Safe), Left));
  };
  switch (I.getOpcode()) {
  case Instruction::Add: return Overflows(Intrinsic::sadd_with_overflow, Intrinsic::uadd_with_overflow);
  case Instruction::Sub: return Overflows(Intrinsic::ssub_with_overflow, Intrinsic::usub_with_overflow);
  case Instruction::Mul: return Overflows(Intrinsic::smul_with_overflow, Intrinsic::umul_with_overflow);
  case Instruction::Shl:
  case Instruction::LShr:
  case Instruction::AShr: {
    Value *Wrong = Builder.CreateICmpUGE(Right, ConstantInt::get(T, T->getBitWidth()));
    if (isExact(I))
      return Changes(I.getOpcode() == Instruction::LShr ? Instruction::LShr : Instruction::AShr, Instruction::Shl, Wrong);
    Value *Any = Wrong;
    if (I.getOpcode() == Instruction::Shl && I.hasNoUnsignedWrap())
      Any = Builder.CreateOr(Any, Changes(Instruction::Shl, Instruction::LShr, Wrong));
    if (I.getOpcode() == Instruction::Shl && I.hasNoSignedWrap())
      Any = Builder.CreateOr(Any, Changes(Instruction::Shl, Instruction::AShr, Wrong));
    return Any;
  }
  default: {
    Value *Wrong = Builder.CreateICmpEQ(Right, ConstantInt::get(T, 0));
    bool Signed = I.getOpcode() == Instruction::SDiv || I.getOpcode() == Instruction::SRem;
    if (Signed) {
      Value *Least = Builder.CreateICmpEQ(Left, ConstantInt::get(T, APInt::getSignedMinValue(T->getBitWidth())));
      Value *MinusOne = Builder.CreateICmpEQ(Right, ConstantInt::getAllOnesValue(T));
      Wrong = Builder.CreateOr(Wrong, Builder.CreateAnd(Least, MinusOne));
    }
    if (!isExact(I))
      return Wrong;
    return Changes(Signed ? Instruction::SDiv : Instruction::UDiv, Instruction::Mul, Wrong);
  }
  }
}

/// The condition under which a floating-point instruction breaks its promise.
Value *noNumbers(IRBuilder<> &Builder, Instruction &I, ArrayRef<Value *> Values) {
  Value *Any = Builder.getFalse();
  for (Value *V : Values) {
    if (!V->getType()->isFloatingPointTy() || isa<Constant>(V))
      continue;
    if (I.hasNoNaNs())
      Any = Builder.CreateOr(Any, Builder.CreateFCmpUNO(V, V));
    if (I.hasNoInfs())
      Any = Builder.CreateOr(
          Any, Builder.CreateFCmpOEQ(Builder.CreateUnaryIntrinsic(Intrinsic::fabs, V), ConstantFP::getInfinity(V->getType())));
  }
  return Any;
}

void trapIf(Value *Condition, Instruction *Before) {
  Instruction *End = Condition ? SplitBlockAndInsertIfThen(Condition, Before->getIterator(), true) : Before;
  IRBuilder<>(End).CreateIntrinsic(Intrinsic::trap, ArrayRef<Type *>(), ArrayRef<Value *>());
}

void check(Instruction &I, bool FastMath) {
  if (!FastMath) {
    IRBuilder<> Builder(&I);
    trapIf(undefined(Builder, I), &I);
    return;
  }
  IRBuilder<> Builder(I.getNextNode());
  std::vector<Value *> Values(I.op_begin(), I.op_end());
  Values.push_back(&I);
  trapIf(noNumbers(Builder, I, Values), I.getNextNode());
}

} // namespace

extern "C" {

/// Makes instructions that may have no defined result end the kernel if they have none: those from `From` up to, but
/// not including, `To`. With `FastMath`, these are the instructions whose fast-math flags rule out NaN or infinity.
/// Returns all such instructions, one per line (the caller frees the text).
char *mneme_llvm_trap_undefined(LLVMModuleRef Raw, int FastMath, uint64_t From, uint64_t To) {
  Module &M = *unwrap(Raw);
  std::vector<Instruction *> Found;
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      if (FastMath ? promisesNumbers(I) : isCheckable(I))
        Found.push_back(&I);
  std::string Text;
  raw_string_ostream Stream(Text);
  for (Instruction *I : Found)
    mneme::describe(Stream, *I);
  for (uint64_t At = From; At < std::min<uint64_t>(To, Found.size()); ++At)
    check(*Found[At], FastMath);
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
