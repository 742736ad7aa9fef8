// Ends a kernel where it breaks what passes assume of memory: that objects of different types do not overlap, and that
// noalias pointers lead to different objects. overlaps.ll has what the code calls; revise.rs describes the contract.
//
// Only accesses of one thread in one call of a function are compared: passes assume no more.

#include "revise.h"
#include "version.h"

#include "llvm-c/Core.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/MemoryLocation.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TypeBasedAliasAnalysis.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CBindingWrapping.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace llvm;

namespace {

/// Numbers of kinds of accesses, 0 being none of them. Those of one function fit into the bits of a mask.
constexpr unsigned MostKinds = 63;
/// As overlaps.ll has it: 64 entries.
constexpr uint64_t TableBytes = 64 * 24;
/// The widest access that is looked at, bytes.
constexpr uint64_t Widest = 64;

/// A load or store, and the kinds of earlier stores and loads of the same bytes that it must not meet.
struct Access {
  Instruction *I;
  uint64_t Bytes;
  unsigned Kind;
  uint64_t AfterStores = 0, AfterLoads = 0;

  bool writes() const { return isa<StoreInst>(I); }
  bool isChecked() const { return AfterStores || AfterLoads; }
};

/// Has local variables in registers, and, for types, accesses in one function.
void simplify(Module &M, StringRef Kernel, bool Inlines) {
  for (Function &F : M) {
    F.removeFnAttr(Attribute::OptimizeNone);
    if (!Inlines || F.isDeclaration() || F.getName() == Kernel)
      continue;
    F.removeFnAttr(Attribute::NoInline);
    F.addFnAttr(Attribute::AlwaysInline);
  }
  LoopAnalysisManager Loops;
  FunctionAnalysisManager Functions;
  CGSCCAnalysisManager Components;
  ModuleAnalysisManager Modules;
  PassBuilder Builder;
  Builder.registerModuleAnalyses(Modules);
  Builder.registerCGSCCAnalyses(Components);
  Builder.registerFunctionAnalyses(Functions);
  Builder.registerLoopAnalyses(Loops);
  Builder.crossRegisterProxies(Loops, Functions, Components, Modules);
  ModulePassManager Passes;
  cantFail(Builder.parsePassPipeline(Passes, Inlines ? "always-inline,function(sroa)" : "function(sroa)"));
  Passes.run(M, Modules);
}

std::vector<Access> accesses(Function &F) {
  std::vector<Access> Found;
  for (Instruction &I : instructions(F)) {
    auto *Load = dyn_cast<LoadInst>(&I);
    auto *Store = dyn_cast<StoreInst>(&I);
    if (!(Load && Load->isSimple()) && !(Store && Store->isSimple()))
      continue;
    TypeSize Size = F.getParent()->getDataLayout().getTypeStoreSize(getLoadStoreType(&I));
    if (!Size.isScalable() && Size.getFixedValue() <= Widest)
      Found.push_back({&I, Size.getFixedValue(), 0});
  }
  return Found;
}

/// A load must not find what was stored as another type.
void compareTypes(Module &M, std::vector<Access> &All) {
  TargetLibraryInfoImpl Implementation(Triple(M.getTargetTriple()));
  TargetLibraryInfo Library(Implementation);
  AAResults Aliases(Library);
  mneme::TypesAlone Types;
  Aliases.addAAResult(Types.Result);
  std::vector<std::pair<MDNode *, Instruction *>> Kinds;
  for (Access &A : All) {
    MDNode *Tag = A.I->getMetadata(LLVMContext::MD_tbaa);
    if (!Tag)
      continue;
    auto Known = find_if(Kinds, [&](auto &Kind) { return Kind.first == Tag; });
    if (Known == Kinds.end() && Kinds.size() < MostKinds)
      Known = Kinds.insert(Kinds.end(), {Tag, A.I});
    if (Known != Kinds.end())
      A.Kind = Known - Kinds.begin() + 1;
  }
  for (Access &A : All)
    for (size_t Kind = 0; Kind < Kinds.size(); ++Kind)
      if (A.Kind && !A.writes() &&
          Aliases.isNoAlias(MemoryLocation::get(A.I), MemoryLocation::get(Kinds[Kind].second)))
        A.AfterStores |= uint64_t(1) << (Kind + 1);
}

using Bases = std::vector<const Value *>;

/// Whether one is a noalias parameter that the other does not come from.
bool isOnesOwn(const Bases &One, const Bases &Other) {
  auto *Parameter = One.size() == 1 ? dyn_cast<Argument>(One[0]) : nullptr;
  return Parameter && Parameter->hasNoAliasAttr() && !is_contained(Other, Parameter);
}

/// What is accessed through a noalias parameter must not be accessed through anything else, if either writes it.
void compareBases(std::vector<Access> &All) {
  std::vector<Bases> Kinds;
  for (Access &A : All) {
    SmallVector<const Value *, 4> Objects;
    getUnderlyingObjects(getLoadStorePointerOperand(A.I), Objects);
    // Of other pointers it is not known where they come from.
    if (!all_of(Objects, [](const Value *Object) { return isa<Argument, GlobalVariable>(Object); }))
      continue;
    Bases Sorted(Objects.begin(), Objects.end());
    llvm::sort(Sorted);
    auto Known = llvm::find(Kinds, Sorted);
    if (Known == Kinds.end() && Kinds.size() < MostKinds)
      Known = Kinds.insert(Kinds.end(), Sorted);
    if (Known != Kinds.end())
      A.Kind = Known - Kinds.begin() + 1;
  }
  for (Access &A : All)
    for (size_t Kind = 0; A.Kind && Kind < Kinds.size(); ++Kind)
      if (isOnesOwn(Kinds[A.Kind - 1], Kinds[Kind]) || isOnesOwn(Kinds[Kind], Kinds[A.Kind - 1])) {
        A.AfterStores |= uint64_t(1) << (Kind + 1);
        if (A.writes())
          A.AfterLoads |= uint64_t(1) << (Kind + 1);
      }
}

Value *generic(IRBuilder<> &Builder, Value *Pointer) {
  return Builder.CreateAddrSpaceCast(Pointer, Builder.getPtrTy());
}

/// After other writes nothing is known of the types of what is stored.
void forgetAfterOthers(Function &F, Value *Table, const std::vector<Access> &All) {
  SmallPtrSet<Instruction *, 32> Watched;
  for (const Access &A : All)
    Watched.insert(A.I);
  std::vector<Instruction *> Others;
  for (Instruction &I : instructions(F))
    if (I.mayWriteToMemory() && !I.isTerminator() && !Watched.contains(&I) && !isa<DbgInfoIntrinsic, AssumeInst>(I))
      Others.push_back(&I);
  for (Instruction *Other : Others) {
    IRBuilder<> Builder(Other->getNextNode());
    Builder.CreateMemSet(Table, Builder.getInt8(0), TableBytes, Align(8));
  }
}

void watch(Function &F, std::vector<Access> &All, bool Types, uint64_t &Number, uint64_t From, uint64_t To,
           raw_ostream &List) {
  IRBuilder<> Entry(&*F.getEntryBlock().getFirstInsertionPt());
  AllocaInst *Place = Entry.CreateAlloca(Entry.getInt8Ty(), Entry.getInt64(TableBytes));
  Place->setAlignment(Align(8));
  Value *Table = generic(Entry, Place);
  Entry.CreateMemSet(Table, Entry.getInt8(0), TableBytes, Align(8));
  if (Types)
    forgetAfterOthers(F, Table, All);
  for (Access &A : All) {
    bool Checks = false;
    if (A.isChecked()) {
      mneme::describe(List, *A.I);
      Checks = Number >= From && Number < To;
      ++Number;
    }
    IRBuilder<> Builder(A.I);
    Value *Address = Builder.CreatePtrToInt(generic(Builder, getLoadStorePointerOperand(A.I)), Builder.getInt64Ty());
    Value *Arguments[] = {Table,
                          Address,
                          Builder.getInt64(A.Bytes),
                          Builder.getInt8(A.Kind),
                          Builder.getInt64(Checks ? A.AfterStores : 0),
                          Builder.getInt64(Checks ? A.AfterLoads : 0),
                          Builder.getInt1(A.writes())};
    std::vector<Type *> Parameters;
    for (Value *Argument : Arguments)
      Parameters.push_back(Argument->getType());
    auto *Signature = FunctionType::get(Builder.getVoidTy(), Parameters, false);
    Builder.CreateCall(F.getParent()->getOrInsertFunction("__mneme_overlap", Signature), Arguments);
  }
}

/// Links what the code calls.
void link(Module &M, StringRef Functions) {
  SMDiagnostic Error;
  std::unique_ptr<Module> Linked = parseIR(MemoryBufferRef(Functions, "overlaps"), Error, M.getContext());
  Linked->setDataLayout(M.getDataLayout());
  Linked->setTargetTriple(M.getTargetTriple());
  Linker::linkModules(M, std::move(Linked));
  M.getFunction("__mneme_overlap")->setLinkage(GlobalValue::InternalLinkage);
}

} // namespace

extern "C" {

/// Lets the accesses from `From` up to, but without, `To`, of those that may break an assumption, end the kernel where
/// they do. `Types`: the assumption is about types, else about noalias pointers. Returns all of them, a line each (to be
/// freed).
char *mneme_llvm_trap_overlaps(LLVMModuleRef Raw, const char *Kernel, int Types, const char *Functions, uint64_t From,
                               uint64_t To) {
  Module &M = *unwrap(Raw);
  simplify(M, Kernel, Types);
  std::string Text;
  raw_string_ostream List(Text);
  uint64_t Number = 0;
  for (Function &F : M) {
    if (F.isDeclaration())
      continue;
    std::vector<Access> All = accesses(F);
    if (Types)
      compareTypes(M, All);
    else
      compareBases(All);
    if (any_of(All, [](const Access &A) { return A.isChecked(); }))
      watch(F, All, Types, Number, From, To, List);
  }
  if (Number)
    link(M, Functions);
  return mneme::copy(Text);
}

} // extern "C"
