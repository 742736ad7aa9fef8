// Removes parts of a module to make a failing kernel smaller. Zero replaces what is removed, so no undefined behaviour
// is added. The parts are renumbered after each edit; revise.rs describes the contract.

#include "revise.h"
#include "version.h"

#include "llvm-c/Core.h"
#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CBindingWrapping.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace {

/// The same as in revise.rs.
enum Part : int { Everything, Functions, Ends, Branches, Values, Chains, Arguments };

bool isReplaceable(Type *T) { return T->isSized() && !T->isTokenTy() && !T->isX86_AMXTy(); }

void removeInstruction(Instruction &I, Value *Instead) {
  if (!I.getType()->isVoidTy())
    I.replaceAllUsesWith(Instead ? Instead : Constant::getNullValue(I.getType()));
  I.eraseFromParent();
}

std::vector<Function *> ownFunctions(Module &M, StringRef Kernel) {
  std::vector<Function *> Found;
  for (Function &F : M)
    if (!F.isDeclaration() && F.getName() != Kernel)
      Found.push_back(&F);
  return Found;
}

/// Whether zero may replace a value. As an address, it would usually end the kernel.
bool maybeZero(Type *T) { return isReplaceable(T) && !T->isPtrOrPtrVectorTy(); }

/// Branches, each with a successor that it may always take.
std::vector<std::pair<Instruction *, unsigned>> branches(Module &M) {
  std::vector<std::pair<Instruction *, unsigned>> Found;
  for (Function &F : M)
    for (BasicBlock &Block : F)
      if (mneme::branches(Block.getTerminator()) && Block.getTerminator()->getNumSuccessors() > 1)
        for (unsigned At = 0; At < Block.getTerminator()->getNumSuccessors(); ++At)
          Found.emplace_back(Block.getTerminator(), At);
  return Found;
}

std::vector<Instruction *> values(Module &M) {
  std::vector<Instruction *> Found;
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      if (!I.isTerminator() && !I.isEHPad() && (I.getType()->isVoidTy() || maybeZero(I.getType()) || I.use_empty()))
        Found.push_back(&I);
  return Found;
}

/// The first operand of a value's own type, which may replace the value.
Value *stepDown(Instruction &I) {
  if (isa<PHINode>(I))
    return nullptr;
  for (Value *Operand : I.operand_values())
    if (Operand->getType() == I.getType() && Operand != &I)
      return Operand;
  return nullptr;
}

std::vector<Instruction *> chains(Module &M) {
  std::vector<Instruction *> Found;
  for (Function &F : M)
    for (Instruction &I : instructions(F))
      if (!I.isTerminator() && stepDown(I))
        Found.push_back(&I);
  return Found;
}

std::vector<Argument *> arguments(Module &M) {
  std::vector<Argument *> Found;
  for (Function &F : M)
    if (!F.isDeclaration())
      for (Argument &A : F.args())
        if (!A.use_empty() && maybeZero(A.getType()))
          Found.push_back(&A);
  return Found;
}

void removeFunction(Function &F) {
  for (User *U : make_early_inc_range(F.users()))
    if (auto *Call = dyn_cast<CallInst>(U); Call && Call->getCalledOperand() == &F)
      removeInstruction(*Call, nullptr);
  if (F.use_empty())
    F.eraseFromParent();
}

void goAlways(Instruction &Terminator, unsigned Successor) {
  BasicBlock *Block = Terminator.getParent(), *Target = Terminator.getSuccessor(Successor);
  bool Kept = false;
  for (unsigned At = 0; At < Terminator.getNumSuccessors(); ++At) {
    BasicBlock *Other = Terminator.getSuccessor(At);
    if (Other == Target && !Kept)
      Kept = true;
    else
      Other->removePredecessor(Block, true);
  }
  IRBuilder<>(&Terminator).CreateBr(Target);
  Terminator.eraseFromParent();
}

std::vector<BasicBlock *> ongoing(Module &M) {
  std::vector<BasicBlock *> Found;
  for (Function &F : M)
    for (BasicBlock &Block : F)
      if (!succ_empty(&Block))
        Found.push_back(&Block);
  return Found;
}

void endHere(BasicBlock &Block) {
  for (BasicBlock *Other : successors(&Block))
    Other->removePredecessor(&Block, true);
  Instruction *Terminator = Block.getTerminator();
  IRBuilder<> Builder(Terminator);
  Type *Result = Block.getParent()->getReturnType();
  if (Result->isVoidTy())
    Builder.CreateRetVoid();
  else
    Builder.CreateRet(Constant::getNullValue(Result));
  if (!Terminator->getType()->isVoidTy())
    Terminator->replaceAllUsesWith(Constant::getNullValue(Terminator->getType()));
  Terminator->eraseFromParent();
}

/// Whether every block has a path to the end of its function. Without one, the function would run forever.
bool ends(Function &F) {
  SmallPtrSet<BasicBlock *, 32> Ending;
  SmallVector<BasicBlock *> Pending;
  for (BasicBlock &Block : F)
    if (succ_empty(&Block))
      Pending.push_back(&Block);
  while (!Pending.empty()) {
    BasicBlock *Block = Pending.pop_back_val();
    if (Ending.insert(Block).second)
      append_range(Pending, predecessors(Block));
  }
  return Ending.size() == F.size();
}

/// Removes everything that is no longer needed.
void tidy(Module &M) {
  for (Function &F : M) {
    if (F.isDeclaration())
      continue;
    removeUnreachableBlocks(F);
    bool Changed = true;
    while (Changed) {
      Changed = false;
      for (Instruction &I : make_early_inc_range(instructions(F))) {
        // If a variable is only written, its stores are removed too.
        if (auto *Local = dyn_cast<AllocaInst>(&I);
            Local && !Local->use_empty() && all_of(Local->users(), [&](User *U) {
              return isa<StoreInst>(U) && cast<StoreInst>(U)->getValueOperand() != Local;
            })) {
          for (User *U : make_early_inc_range(Local->users()))
            cast<Instruction>(U)->eraseFromParent();
          Changed = true;
          break;
        }
        if (Constant *Known = I.use_empty() ? nullptr : ConstantFoldInstruction(&I, F.getDataLayout())) {
          I.replaceAllUsesWith(Known);
          Changed = true;
        }
        if (isInstructionTriviallyDead(&I)) {
          I.eraseFromParent();
          Changed = true;
          break;
        }
      }
    }
    for (BasicBlock &Block : make_early_inc_range(F))
      MergeBlockIntoPredecessor(&Block);
  }
}

/// Removes everything that no computation needs, and gives local variables a value.
void strip(Module &M) {
  StripDebugInfo(M);
  for (Function &F : M) {
    if (F.isDeclaration())
      continue;
    for (Instruction &I : make_early_inc_range(instructions(F))) {
      SmallVector<std::pair<unsigned, MDNode *>> Data;
      I.getAllMetadata(Data);
      for (auto &[Kind, Node] : Data)
        I.setMetadata(Kind, nullptr);
      if (auto *Intrinsic = dyn_cast<IntrinsicInst>(&I);
          Intrinsic && (Intrinsic->isLifetimeStartOrEnd() || Intrinsic->isAssumeLikeIntrinsic()))
        if (Intrinsic->use_empty())
          Intrinsic->eraseFromParent();
    }
  }
}

template <typename T> std::vector<T> part(const std::vector<T> &All, uint64_t From, uint64_t To) {
  uint64_t Count = All.size();
  From = std::min(From, Count);
  return std::vector<T>(All.begin() + From, All.begin() + std::max(From, std::min(To, Count)));
}

} // namespace

extern "C" {

/// Removes the parts from `From` up to, but not including, `To` from the module. Returns null or why the result is of
/// no use, which the caller frees. `Counts` gets the number of remaining parts of each kind, and of instructions.
char *mneme_llvm_reduce(LLVMModuleRef Raw, const char *Kernel, int Kind, uint64_t From, uint64_t To,
                        uint64_t Counts[7]) {
  Module &M = *unwrap(Raw);
  switch (Kind) {
  case Everything:
    strip(M);
    break;
  case Functions:
    for (Function *F : part(ownFunctions(M, Kernel), From, To))
      removeFunction(*F);
    break;
  case Ends:
    for (BasicBlock *Block : part(ongoing(M), From, To))
      endHere(*Block);
    break;
  case Branches: {
    SmallPtrSet<Instruction *, 16> Gone;
    for (auto &[Terminator, Successor] : part(branches(M), From, To))
      if (Gone.insert(Terminator).second)
        goAlways(*Terminator, Successor);
    break;
  }
  case Values: {
    std::vector<Instruction *> Chosen = part(values(M), From, To);
    for (Instruction *I : reverse(Chosen))
      removeInstruction(*I, nullptr);
    break;
  }
  case Chains: {
    std::vector<Instruction *> Chosen = part(chains(M), From, To);
    for (Instruction *I : reverse(Chosen))
      if (Value *Instead = stepDown(*I))
        removeInstruction(*I, Instead);
    break;
  }
  case Arguments:
    for (Argument *A : part(arguments(M), From, To))
      A->replaceAllUsesWith(Constant::getNullValue(A->getType()));
    break;
  }
  tidy(M);
  for (Function &F : M)
    if (!F.isDeclaration() && !ends(F))
      return mneme::copy("it would run for ever");
  Counts[0] = 0;
  for (Function &F : M)
    Counts[0] += F.getInstructionCount();
  Counts[Functions] = ownFunctions(M, Kernel).size();
  Counts[Ends] = ongoing(M).size();
  Counts[Branches] = branches(M).size();
  Counts[Values] = values(M).size();
  Counts[Chains] = chains(M).size();
  Counts[Arguments] = arguments(M).size();
  return nullptr;
}

} // extern "C"
