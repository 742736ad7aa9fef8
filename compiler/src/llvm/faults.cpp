// The pass `mneme-fault<KIND>`, which breaks a kernel on purpose, to test or try tools that find broken passes.
// `mneme-fault<KIND@22>` does so in LLVM 22 only, to compare versions.
//
// It runs only if a pipeline names it, like LLVM's own `trigger-crash-function`. It is in no list of passes, so no
// search of pipelines finds it.

#include "faults.h"
#include "version.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Pass.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace {

/// Marks on a module whose code generation or assembly is to be broken. assembler/fault.rs does the latter.
constexpr StringLiteral CodegenMark = "mneme.fault.codegen";
constexpr StringLiteral AssemblerMark = "mneme.fault.assembler";

/// Whether a store writes to memory that other threads or the host can see.
bool isVisible(const StoreInst &Store) { return !isa<AllocaInst>(getUnderlyingObject(Store.getPointerOperand())); }

/// Swaps an addition and a subtraction, once, in a stored value. In an address, it would cause a fault of the device.
bool wrongOperator(Function &F) {
  for (Instruction &I : instructions(F)) {
    auto *Store = dyn_cast<StoreInst>(&I);
    auto *Right = Store && isVisible(*Store) ? dyn_cast<BinaryOperator>(Store->getValueOperand()) : nullptr;
    if (!Right)
      continue;
    Instruction::BinaryOps Other;
    switch (Right->getOpcode()) {
    case Instruction::FAdd: Other = Instruction::FSub; break;
    case Instruction::FSub: Other = Instruction::FAdd; break;
    case Instruction::Add: Other = Instruction::Sub; break;
    case Instruction::Sub: Other = Instruction::Add; break;
    default: continue;
    }
    auto *Wrong = BinaryOperator::Create(Other, Right->getOperand(0), Right->getOperand(1), "", Right->getIterator());
    Store->setOperand(0, Wrong);
    return true;
  }
  return false;
}

/// The first integer store that is visible to others.
StoreInst *visibleIntegerStore(Function &F) {
  for (Instruction &I : instructions(F)) {
    auto *Store = dyn_cast<StoreInst>(&I);
    if (Store && isVisible(*Store) && Store->getValueOperand()->getType()->isIntegerTy())
      return Store;
  }
  return nullptr;
}

/// Drops all bits except the lowest eight of the integers that one store writes.
bool narrowedStore(Function &F) {
  StoreInst *Store = visibleIntegerStore(F);
  if (!Store)
    return false;
  IRBuilder<> Builder(Store);
  Value *Whole = Store->getValueOperand();
  Store->setOperand(0, Builder.CreateAnd(Whole, ConstantInt::get(Whole->getType(), 0xff)));
  return true;
}

/// Drops the last visible store.
bool lostStore(Function &F) {
  StoreInst *Last = nullptr;
  for (Instruction &I : instructions(F))
    if (auto *Store = dyn_cast<StoreInst>(&I))
      Last = isVisible(*Store) ? Store : Last;
  if (!Last)
    return false;
  Last->eraseFromParent();
  return true;
}

/// Makes every thread count to 2,000 first.
bool slow(Function &F) {
  BasicBlock *Entry = &F.getEntryBlock();
  BasicBlock *Rest = Entry->splitBasicBlock(Entry->getFirstNonPHIOrDbgOrAlloca());
  auto *Loop = BasicBlock::Create(F.getContext(), "slow", &F, Rest);
  Entry->getTerminator()->setSuccessor(0, Loop);
  IRBuilder<> Builder(Entry->getTerminator());
  Type *Number = Builder.getInt32Ty();
  // Volatile, because a later pass would remove the loop otherwise.
  AllocaInst *Place = new AllocaInst(Number, F.getDataLayout().getAllocaAddrSpace(), "", Entry->getFirstInsertionPt());
  Builder.CreateStore(Builder.getInt32(0), Place, true);
  Builder.SetInsertPoint(Loop);
  Value *Next = Builder.CreateAdd(Builder.CreateLoad(Number, Place, true), Builder.getInt32(1));
  Builder.CreateStore(Next, Place, true);
  Builder.CreateCondBr(Builder.CreateICmpULT(Next, Builder.getInt32(2000)), Loop, Rest);
  return true;
}

/// Stores an integer together with an operation that no supported back end can select, so code generation fails.
bool unselectable(Function &F) {
  StoreInst *Store = visibleIntegerStore(F);
  if (!Store)
    return false;
  IRBuilder<> Builder(Store);
  Value *Whole = Store->getValueOperand();
  Value *Scale = mneme::vscale(Builder, Builder.getInt64Ty());
  Store->setOperand(0, Builder.CreateAdd(Whole, Builder.CreateZExtOrTrunc(Scale, Whole->getType())));
  return true;
}

/// Adds an instruction that PTX does not have, so the assembler fails.
bool unassemblable(Function &F) {
  IRBuilder<> Builder(&*F.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
  auto *Type = FunctionType::get(Builder.getVoidTy(), false);
  Builder.CreateCall(InlineAsm::get(Type, "no.such.instruction;", "", true));
  return true;
}

class FaultPass : public PassInfoMixin<FaultPass> {
public:
  FaultPass(StringRef Kind, bool Strikes) : Kind(Kind.str()), Strikes(Strikes) {}

  PreservedAnalyses run(Function &F, FunctionAnalysisManager &) {
    if (!Strikes)
      return PreservedAnalyses::all();
    bool Changed = Kind == "wrong-operator"   ? wrongOperator(F)
                   : Kind == "narrowed-store" ? narrowedStore(F)
                   : Kind == "lost-store"     ? lostStore(F)
                   : Kind == "slow"           ? slow(F)
                   : Kind == "unselectable"   ? unselectable(F)
                   : Kind == "unassemblable"  ? unassemblable(F)
                   : Kind == "codegen"        ? mark(F, CodegenMark)
                                              : mark(F, AssemblerMark);
    return Changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }

  void printPipeline(raw_ostream &OS, function_ref<StringRef(StringRef)> Name) {
    OS << Name(FaultPass::name()) << '<' << Kind << '>';
  }

  static bool knows(StringRef Kind) {
    return Kind == "wrong-operator" || Kind == "narrowed-store" || Kind == "lost-store" || Kind == "slow" ||
           Kind == "codegen" || Kind == "assembler" || Kind == "unselectable" || Kind == "unassemblable";
  }

private:
  static bool mark(Function &F, StringRef Mark) {
    F.getParent()->getOrInsertNamedMetadata(Mark);
    return false;
  }

  std::string Kind;
  bool Strikes;
};

/// The fault in code generation: an optional pass, like the others of its kind.
class CodegenFault : public FunctionPass {
public:
  static char ID;
  CodegenFault() : FunctionPass(ID) {}
  StringRef getPassName() const override { return "Mneme's planted fault"; }
  bool runOnFunction(Function &F) override { return !skipFunction(F) && wrongOperator(F); }
};

char CodegenFault::ID = 0;

} // namespace

void mneme::registerFaults(PassBuilder &Builder, PassInstrumentationCallbacks &Callbacks) {
  constexpr StringLiteral Name = "mneme-fault";
  Callbacks.addClassToPassName(FaultPass::name(), Name);
  using Elements = ArrayRef<PassBuilder::PipelineElement>;
  Builder.registerPipelineParsingCallback([](StringRef Text, FunctionPassManager &Passes, Elements) {
    if (!Text.consume_front("mneme-fault<") || !Text.consume_back(">"))
      return false;
    auto [Kind, Version] = Text.split('@');
    unsigned Major = LLVM_VERSION_MAJOR;
    if (!FaultPass::knows(Kind) || (!Version.empty() && Version.getAsInteger(10, Major)))
      return false;
    Passes.addPass(FaultPass(Kind, Major == LLVM_VERSION_MAJOR));
    return true;
  });
}

bool mneme::breaksAssembly(const Module &M) { return M.getNamedMetadata(AssemblerMark); }

void mneme::breakCodegen(Module &M) {
  if (!M.getNamedMetadata(CodegenMark))
    return;
  legacy::PassManager Passes;
  Passes.add(new CodegenFault());
  Passes.run(M);
}
