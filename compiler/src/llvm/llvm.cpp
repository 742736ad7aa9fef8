// Functions that LLVM's C interface lacks: pipelines with control over every pass, LLVM's own command line, names of
// passes.
//
// llvm.rs calls all of them and describes the contracts. No state is kept between calls.

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "faults.h"
#include "revise.h"
#include "version.h"

#include "llvm-c/Core.h"
#include "llvm-c/TargetMachine.h"
#include "llvm/Analysis/LazyCallGraph.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/StandardInstrumentations.h"
#include "llvm/Support/CBindingWrapping.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

using namespace llvm;
using mneme::copy;

namespace {

/// Callbacks about passes. `number` counts optional passes from 1; it is 0 for the others.
struct Observer {
  void *user;
  /// Whether to run the pass. The answer matters only if `number` is not 0.
  bool (*before)(void *user, uint64_t number, const char *pass, size_t pass_length, const char *unit,
                 size_t unit_length);
  void (*after)(void *user, uint64_t number);
};

/// Whether a pass only runs others. Such passes have no number, and the observer does not see them.
bool isContainer(StringRef Pass) {
  static constexpr StringLiteral Containers[] = {"PassManager",         "PassAdaptor",          "AnalysisManagerProxy",
                                                 "DevirtSCCRepeatedPass", "ModuleInlinerWrapperPass", "VerifierPass"};
  Pass = Pass.substr(0, Pass.find('<'));
  return any_of(Containers, [&](StringRef Container) { return Pass.ends_with(Container); });
}

std::string describe(const Any &IR) {
  if (any_cast<const Module *>(&IR))
    return "the module";
  if (const auto *F = any_cast<const Function *>(&IR))
    return ("function " + (*F)->getName()).str();
  if (const auto *C = any_cast<const LazyCallGraph::SCC *>(&IR))
    return "call graph component " + (*C)->getName();
  if (const auto *L = any_cast<const Loop *>(&IR))
    return ("loop " + (*L)->getName() + " of function " + (*L)->getHeader()->getParent()->getName()).str();
  return "something";
}

/// Whether a unit is, or is in, a function with `optnone`, as in parts of AMD's device library.
bool isLeftAlone(const Any &IR) {
  if (const auto *F = any_cast<const Function *>(&IR))
    return (*F)->hasOptNone();
  if (const auto *L = any_cast<const Loop *>(&IR))
    return (*L)->getHeader()->getParent()->hasOptNone();
  return false;
}

void observe(PassInstrumentationCallbacks &Callbacks, const Observer &Who, uint64_t &Count,
             std::vector<uint64_t> &Running) {
  // Called first, and only for optional passes. The callback that follows it takes the number over.
  auto Asked = std::make_shared<std::optional<uint64_t>>();
  Callbacks.registerShouldRunOptionalPassCallback([&, Asked](StringRef Pass, Any IR) {
    if (isContainer(Pass) || isLeftAlone(IR))
      return true;
    *Asked = ++Count;
    StringRef Name = Callbacks.getPassNameForClassName(Pass);
    Name = Name.empty() ? Pass : Name;
    std::string Unit = describe(IR);
    bool Run = Who.before(Who.user, Count, Name.data(), Name.size(), Unit.data(), Unit.size());
    if (!Run)
      Asked->reset();
    return Run;
  });
  Callbacks.registerBeforeNonSkippedPassCallback([&, Asked](StringRef Pass, Any IR) {
    uint64_t Number = Asked->value_or(0);
    Asked->reset();
    if (Number == 0 && !isContainer(Pass)) {
      StringRef Name = Callbacks.getPassNameForClassName(Pass);
      Name = Name.empty() ? Pass : Name;
      std::string Unit = describe(IR);
      Who.before(Who.user, 0, Name.data(), Name.size(), Unit.data(), Unit.size());
    }
    Running.push_back(Number);
  });
  auto Ended = [&] {
    if (Running.empty())
      return;
    uint64_t Number = Running.back();
    Running.pop_back();
    if (Number != 0)
      Who.after(Who.user, Number);
  };
  Callbacks.registerAfterPassCallback([Ended](StringRef, Any, const PreservedAnalyses &) { Ended(); });
  Callbacks.registerAfterPassInvalidatedCallback([Ended](StringRef, const PreservedAnalyses &) { Ended(); });
}

/// Asks about the optional passes of code generation.
class Gate final : public OptPassGate {
public:
  using Asked = bool (*)(void *user, const char *pass, size_t pass_length, const char *unit, size_t unit_length);
  Gate(void *User, Asked Ask) : User(User), Ask(Ask) {}
  bool isEnabled() const override { return true; }
  bool shouldRunPass(StringRef Pass, StringRef Unit) MNEME_GATE_CONST override {
    return Ask(User, Pass.data(), Pass.size(), Unit.data(), Unit.size());
  }

private:
  void *User;
  Asked Ask;
};

/// The tuning options that clang uses, for the level of the first pipeline in a text (`BackendUtil.cpp`, and the
/// driver's `-vectorize-loops` and `-vectorize-slp`). LLVM's own defaults match no level: they unroll loops at -O1 and
/// never vectorise straight-line code.
PipelineTuningOptions tuning(StringRef Pipeline) {
  PipelineTuningOptions Options;
  size_t At = Pipeline.find("<O");
  if (At == StringRef::npos || At + 2 == Pipeline.size())
    return Options;
  char Level = Pipeline[At + 2];
  bool Above1 = Level != '0' && Level != '1';
  Options.LoopUnrolling = Options.LoopInterleaving = Options.SLPVectorization = Above1;
  Options.LoopVectorization = Above1 && Level != 'z';
  return Options;
}

/// Sets a boolean option of LLVM.
void set(StringRef Name, bool Value) {
  auto &Options = cl::getRegisteredOptions();
  auto Found = Options.find(Name);
  // An option on the command line overrides it.
  if (Found != Options.end() && Found->second->getNumOccurrences() == 0)
    static_cast<cl::opt<bool> *>(Found->second)->setValue(Value);
}

} // namespace

namespace llvm {
/// A function of the NVPTX back end (NVPTXUtilities.h, which is not installed).
void clearAnnotationCache(const Module *);
} // namespace llvm

extern "C" {

/// Clears the cache of kernels. The NVPTX back end caches which functions are kernels by the addresses of module and
/// function until the module is emitted. If it is never emitted, the next module at that address would inherit the
/// entries.
void mneme_llvm_forget_annotations(LLVMModuleRef M) { clearAnnotationCache(unwrap(M)); }

/// Makes a function's 32-bit floating-point operations flush denormals.
void mneme_llvm_flush_denormals(LLVMValueRef F) { mneme::flushDenormals(*unwrap<Function>(F)); }

/// Runs a pipeline. Returns null or an error, which the caller frees. `instrument` enables LLVM's own options about
/// passes.
char *mneme_llvm_run(LLVMModuleRef M, const char *Pipeline, LLVMTargetMachineRef T, const Observer *Who,
                     bool Instrument) {
  Module &TheModule = *unwrap(M);
  mneme_llvm_forget_annotations(M);
  // clang has copies of memory optimised for NVIDIA GPUs, though there is no library to call, but not for AMD GPUs. The
  // option is process-wide, and other threads may run pipelines.
  bool IsAMD = Triple(TheModule.getTargetTriple()).isAMDGPU();
  static std::shared_mutex Option;
  std::shared_lock<std::shared_mutex> WithOthers(Option, std::defer_lock);
  std::unique_lock<std::shared_mutex> Alone(Option, std::defer_lock);
  if (IsAMD)
    Alone.lock();
  else
    WithOthers.lock();
  set("enable-memcpyopt-without-libcalls", !IsAMD);
  PassInstrumentationCallbacks Callbacks;
  uint64_t Count = 0;
  std::vector<uint64_t> Running;
  // The order matters: managers declared last are destroyed first, and they clear those before them.
  LoopAnalysisManager LAM;
  FunctionAnalysisManager FAM;
  CGSCCAnalysisManager CGAM;
  ModuleAnalysisManager MAM;
  std::optional<StandardInstrumentations> Standard;
  // The standard instrumentation includes this one.
  OptNoneInstrumentation LeavesAlone(/*DebugLogging=*/false);
  if (Instrument) {
    Standard.emplace(TheModule.getContext(), false);
    Standard->registerCallbacks(Callbacks, &MAM);
  } else {
    LeavesAlone.registerCallbacks(Callbacks);
  }
  if (Who)
    observe(Callbacks, *Who, Count, Running);
  PassBuilder Builder(reinterpret_cast<TargetMachine *>(T), tuning(Pipeline), std::nullopt, &Callbacks);
  Builder.registerModuleAnalyses(MAM);
  Builder.registerCGSCCAnalyses(CGAM);
  Builder.registerFunctionAnalyses(FAM);
  Builder.registerLoopAnalyses(LAM);
  Builder.crossRegisterProxies(LAM, FAM, CGAM, MAM);
  mneme::registerFaults(Builder, Callbacks);
  ModulePassManager Passes;
  if (Error Failure = Builder.parsePassPipeline(Passes, Pipeline))
    return copy(toString(std::move(Failure)));
  Passes.run(TheModule, MAM);
  return nullptr;
}

/// Returns null if the pipeline can be parsed, otherwise an error, which the caller frees.
char *mneme_llvm_parse(const char *Pipeline, LLVMTargetMachineRef T) {
  PassInstrumentationCallbacks Callbacks;
  PassBuilder Builder(reinterpret_cast<TargetMachine *>(T), tuning(Pipeline), std::nullopt, &Callbacks);
  mneme::registerFaults(Builder, Callbacks);
  ModulePassManager Passes;
  if (Error Failure = Builder.parsePassPipeline(Passes, Pipeline))
    return copy(toString(std::move(Failure)));
  return nullptr;
}

/// The pipeline as LLVM understands it, every pass with its parameters (the caller frees it); null if it cannot be
/// parsed.
char *mneme_llvm_print(const char *Pipeline, LLVMTargetMachineRef T) {
  PassInstrumentationCallbacks Callbacks;
  PassBuilder Builder(reinterpret_cast<TargetMachine *>(T), tuning(Pipeline), std::nullopt, &Callbacks);
  mneme::registerFaults(Builder, Callbacks);
  ModulePassManager Passes;
  if (Error Failure = Builder.parsePassPipeline(Passes, Pipeline)) {
    consumeError(std::move(Failure));
    return nullptr;
  }
  std::string Text;
  raw_string_ostream Stream(Text);
  Passes.printPipeline(Stream, [&](StringRef Class) {
    StringRef Name = Callbacks.getPassNameForClassName(Class);
    return Name.empty() ? Class : Name;
  });
  return copy(Text);
}

/// Generates code. Returns null and the code, or an error, which the caller frees. `Ask` decides about each optional
/// pass.
char *mneme_llvm_emit(LLVMModuleRef M, LLVMTargetMachineRef T, LLVMCodeGenFileType Kind, void *User, Gate::Asked Ask,
                      LLVMMemoryBufferRef *Code) {
  LLVMContext &Context = unwrap(M)->getContext();
  Gate TheGate(User, Ask);
  OptPassGate &Usual = Context.getOptPassGate();
  Context.setOptPassGate(TheGate);
  mneme_llvm_forget_annotations(M);
  mneme::breakCodegen(*unwrap(M));
  char *Message = nullptr;
  bool Failed = LLVMTargetMachineEmitToMemoryBuffer(T, M, Kind, &Message, Code);
  Context.setOptPassGate(Usual);
  return Failed ? Message : nullptr;
}

/// Whether the assembly of a module is to be broken on purpose.
bool mneme_llvm_breaks_assembly(LLVMModuleRef M) { return mneme::breaksAssembly(*unwrap(M)); }
/// Makes code that reaches an `unreachable` stop there instead of running on into other code.
void mneme_llvm_trap_unreachable(LLVMTargetMachineRef T) {
  reinterpret_cast<TargetMachine *>(T)->Options.TrapUnreachable = true;
}

/// Lets the target fuse any product into a sum, like clang with `-ffp-contract=fast`; otherwise only those that the
/// front end marked.
void mneme_llvm_fuse(LLVMTargetMachineRef T, bool Everywhere) {
  reinterpret_cast<TargetMachine *>(T)->Options.AllowFPOpFusion = Everywhere ? FPOpFusion::Fast : FPOpFusion::Standard;
}

/// Makes atomic accesses and fences valid for every thread, whatever their scope.
void mneme_llvm_widen_scopes(LLVMModuleRef M) {
  for (Function &F : *unwrap(M))
    for (Instruction &I : instructions(F)) {
      if (auto *Load = dyn_cast<LoadInst>(&I)) {
        if (Load->isAtomic())
          Load->setSyncScopeID(SyncScope::System);
      } else if (auto *Store = dyn_cast<StoreInst>(&I)) {
        if (Store->isAtomic())
          Store->setSyncScopeID(SyncScope::System);
      } else if (auto *Update = dyn_cast<AtomicRMWInst>(&I)) {
        Update->setSyncScopeID(SyncScope::System);
      } else if (auto *Exchange = dyn_cast<AtomicCmpXchgInst>(&I)) {
        Exchange->setSyncScopeID(SyncScope::System);
      } else if (auto *Fence = dyn_cast<FenceInst>(&I)) {
        Fence->setSyncScopeID(SyncScope::System);
      }
    }
}

/// Marks loops as clang's front end does at -O1: neither LLVM nor the assembler unrolls them, unless the source asks
/// for it.
void mneme_llvm_keep_loops(LLVMModuleRef M) {
  static constexpr StringLiteral Unroll = "llvm.loop.unroll.";
  LLVMContext &Context = unwrap(M)->getContext();
  MDNode *Disable = MDNode::get(Context, MDString::get(Context, "llvm.loop.unroll.disable"));
  DenseMap<MDNode *, MDNode *> Marked;
  for (Function &F : *unwrap(M))
    for (BasicBlock &Block : F) {
      Instruction *End = Block.getTerminator();
      MDNode *Loop = End ? End->getMetadata(LLVMContext::MD_loop) : nullptr;
      if (!Loop || Loop->getNumOperands() == 0)
        continue;
      MDNode *&New = Marked[Loop];
      if (!New) {
        SmallVector<Metadata *> Parts(Loop->op_begin(), Loop->op_end());
        bool Asked = any_of(drop_begin(Parts), [](Metadata *Part) {
          auto *Node = dyn_cast_or_null<MDNode>(Part);
          auto *Name = Node && Node->getNumOperands() > 0 ? dyn_cast<MDString>(Node->getOperand(0)) : nullptr;
          return Name && Name->getString().starts_with(Unroll);
        });
        New = Loop;
        if (!Asked) {
          Parts.push_back(Disable);
          New = MDNode::getDistinct(Context, Parts);
          New->replaceOperandWith(0, New);
        }
      }
      End->setMetadata(LLVMContext::MD_loop, New);
    }
}

/// An option that clang sets for every compilation for AMD GPUs: symbols that kernels do not need from elsewhere become
/// local.
void mneme_llvm_as_for_devices() { set("amdgpu-internalize-symbols", true); }

/// Whether the back end of a triple knows a processor.
bool mneme_llvm_knows_processor(const char *TheTriple, const char *Processor) {
  std::unique_ptr<MCSubtargetInfo> Info(mneme::subtarget(TheTriple));
  return Info && Info->isCPUStringValid(Processor);
}

/// Sets options of LLVM's command line. Returns null or an error, which the caller frees.
char *mneme_llvm_options(int Count, const char *const *Words) {
  std::string Message;
  raw_string_ostream Stream(Message);
  return cl::ParseCommandLineOptions(Count, Words, "", &Stream) ? nullptr : copy(Message);
}

/// Makes a lack of memory end the process with LLVM's message. Otherwise C++ would throw an exception through code that
/// cannot catch it. Call it once per process.
void mneme_llvm_end_without_memory() { install_out_of_memory_new_handler(); }

/// The names of all passes, as `opt -print-passes` prints them. The caller frees the text.
char *mneme_llvm_pass_names() {
  std::string Names;
  raw_string_ostream Stream(Names);
  PassBuilder().printPassNames(Stream);
  return copy(Names);
}

/// Splits a block before an instruction, and adds a block that runs if the rare condition holds. Returns the new
/// block's terminator.
LLVMValueRef mneme_llvm_branch(LLVMValueRef Condition, LLVMValueRef Before) {
  auto *I = unwrap<Instruction>(Before);
  MDNode *Rarely = MDBuilder(I->getContext()).createUnlikelyBranchWeights();
  return wrap(SplitBlockAndInsertIfThen(unwrap(Condition), I->getIterator(), false, Rarely));
}

/// Replaces loads from local variables that only ever hold one pointer by that pointer. Unoptimised code keeps its
/// parameters in such variables.
void mneme_llvm_forward_pointers(LLVMValueRef Function) {
  auto &F = *unwrap<llvm::Function>(Function);
  DominatorTree Tree(F);
  SmallVector<AllocaInst *> Slots;
  for (Instruction &I : instructions(F))
    if (auto *Slot = dyn_cast<AllocaInst>(&I);
        Slot && Slot->getAllocatedType()->isPointerTy() && isAllocaPromotable(Slot))
      Slots.push_back(Slot);
  for (AllocaInst *Slot : Slots) {
    StoreInst *Only = nullptr;
    SmallVector<LoadInst *> Loads;
    bool Several = false;
    for (User *U : Slot->users()) {
      if (auto *Store = dyn_cast<StoreInst>(U)) {
        Several |= Only != nullptr;
        Only = Store;
      } else if (auto *Load = dyn_cast<LoadInst>(U)) {
        Loads.push_back(Load);
      }
    }
    if (!Only || Several || !Tree.isReachableFromEntry(Only->getParent()) ||
        !all_of(Loads, [&](LoadInst *Load) { return Tree.dominates(Only, Load); }))
      continue;
    for (LoadInst *Load : Loads) {
      Load->replaceAllUsesWith(Only->getValueOperand());
      Load->eraseFromParent();
    }
    Only->eraseFromParent();
  }
}

/// Makes passes keep a function without callers, visible as it is, through the list `llvm.used`.
void mneme_llvm_keep(LLVMValueRef Function) {
  auto *F = unwrap<llvm::Function>(Function);
  appendToUsed(*F->getParent(), {F});
}

/// The source locations of an instruction, innermost line first (the caller frees the text); null without debug
/// information.
char *mneme_llvm_location(LLVMValueRef I) {
  const DILocation *Location = unwrap<Instruction>(I)->getDebugLoc().get();
  if (!Location)
    return nullptr;
  std::string Text;
  raw_string_ostream Stream(Text);
  for (; Location; Location = Location->getInlinedAt()) {
    StringRef File = Location->getFilename(), Folder = Location->getDirectory();
    if (!File.starts_with("/") && !Folder.empty())
      Stream << Folder << '/';
    const DISubprogram *Function = Location->getScope()->getSubprogram();
    Stream << File << '\t' << Location->getLine() << '\t' << Location->getColumn() << '\t'
           << (Function ? Function->getName() : "") << '\n';
  }
  return copy(Text);
}

} // extern "C"
