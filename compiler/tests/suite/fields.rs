//! Tests of every field of a configuration that changes the code.

use std::process::Command;

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use mneme_builds::Target;
use mneme_builds::plan::External;
use mneme_compiler::pipeline::Invocations;
use mneme_compiler::{Artifact, BuildError, BuildRequest, Hooks, InputCode, RecordedLaunch, build, build_with};
use mneme_model::configuration::{Configuration, Specialize};
use mneme_model::launch::Dim3;
use mneme_recording::database::ArgumentLayout;
use mneme_recording::manifest::{Allocation, AllocationKind, RecordedArgument};

/// Like clang's code before any pass: every parameter has a stack slot.
const KERNEL: &str = r#"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

%struct.Pair = type { float, i32 }
%struct.View = type { ptr, i32 }
@scratch = external addrspace(3) global [0 x float], align 4

declare float @__nv_sinf(float)

define void @kernel(ptr %out, ptr %in, i32 %n, ptr byval(%struct.Pair) align 4 %pair, ptr byval(%struct.View) align 8 %view) {
entry:
  %out.place = alloca ptr
  %in.place = alloca ptr
  store ptr %out, ptr %out.place
  store ptr %in, ptr %in.place
  %to = load ptr, ptr %out.place
  %from = load ptr, ptr %in.place
  %x = load float, ptr %from
  %s = call float @__nv_sinf(float %x)
  store float %s, ptr addrspace(3) @scratch
  %y = load float, ptr %from
  %slope = load float, ptr %pair
  %data.place = getelementptr %struct.View, ptr %view, i32 0, i32 0
  %data = load ptr, ptr %data.place
  %length.place = getelementptr %struct.View, ptr %view, i32 0, i32 1
  %length = load i32, ptr %length.place
  %count = add i32 %n, %length
  %f = sitofp i32 %count to float
  %a = fmul float %y, %slope
  %b = fadd float %a, %f
  %q = fdiv float %b, %s
  store float %q, ptr %to
  store float %q, ptr %data
  ret void
}

!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
"#;

const BASE: u64 = 0x1000_0000_0000;

fn arguments() -> Vec<RecordedArgument> {
    let pair = [1.5f32.to_le_bytes(), 9i32.to_le_bytes()].concat();
    let view = [&(BASE + 0x3000).to_le_bytes()[..], &40i32.to_le_bytes(), &[0; 4]].concat();
    vec![
        RecordedArgument { offset: 0, bytes: BASE.to_le_bytes().to_vec() },
        RecordedArgument { offset: 8, bytes: (BASE + 0x1010).to_le_bytes().to_vec() },
        RecordedArgument { offset: 16, bytes: 77i32.to_le_bytes().to_vec() },
        RecordedArgument { offset: 20, bytes: pair },
        RecordedArgument { offset: 32, bytes: view },
    ]
}

fn allocation(address: u64, size: u64) -> Allocation {
    Allocation { address, size, kind: AllocationKind::Arena, ..Allocation::default() }
}

fn allocations() -> Vec<Allocation> {
    vec![allocation(BASE, 0x400), allocation(BASE + 0x1000, 0x400), allocation(BASE + 0x3000, 0x400)]
}

fn configuration() -> Configuration {
    let mut configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 1024);
    configuration.passes = String::new();
    configuration
}

struct Case {
    text: String,
    configuration: Configuration,
    arguments: Vec<RecordedArgument>,
    allocations: Vec<Allocation>,
    external: Option<External>,
    target: Target,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            text: KERNEL.into(),
            configuration: configuration(),
            arguments: arguments(),
            allocations: allocations(),
            external: None,
            target: Target::Nvptx { arch: "sm_90".into() },
        }
    }
}

impl Case {
    fn with(change: impl FnOnce(&mut Configuration)) -> Self {
        let mut case = Self::default();
        change(&mut case.configuration);
        case
    }

    fn build(&self) -> Result<Artifact, BuildError> {
        // With undefined functions, the assembler would not make code for the kernel.
        let text = self.text.replace(
            "declare float @__nv_sinf(float)",
            "define internal float @__nv_sinf(float %x) noinline {\n  ret float %x\n}",
        );
        let modules: [&[u8]; 1] = [text.as_bytes()];
        let mut request = BuildRequest::new(InputCode::Ir(&modules), "kernel", &self.target, &self.configuration);
        request.recorded = RecordedLaunch {
            arguments: &self.arguments,
            allocations: &self.allocations,
            launches: &[&[0, 0, 77], &[0, 0, (-3i32) as u32 as u64]],
            ..RecordedLaunch::default()
        };
        (request.keep.before, request.keep.after) = (true, true);
        request.external = self.external.as_ref();
        build(&request)
    }

    fn ir(&self) -> String {
        self.build().unwrap().ir.unwrap()
    }

    fn signature(&self) -> String {
        self.ir().lines().find(|line| line.starts_with("define") && line.contains("@kernel")).unwrap().to_owned()
    }
}

#[test]
fn facts_are_what_the_recording_proves() {
    let facts = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::with(|it| it.facts = true);
        change(&mut case);
        case.signature()
    };
    let all = facts(&|_| {});
    assert!(all.contains("ptr noalias noundef align 256 dereferenceable(1024) %out"), "{all}");
    assert!(all.contains("ptr noalias noundef align 16 dereferenceable(1008) %in"), "{all}");
    assert!(all.contains("range(i32 -3, 78) %n"), "{all}");
    assert!(!Case::default().signature().contains("noalias"));

    let together = facts(&|case| case.arguments[1].bytes = (BASE + 0x10).to_le_bytes().to_vec());
    assert!(!together.contains("noalias"), "two pointers into one allocation: {together}");
    let end = facts(&|case| case.arguments[1].bytes = (BASE + 0x400).to_le_bytes().to_vec());
    assert!(!end.contains("noalias noundef align 256 dereferenceable(1024) %out"), "a pointer to the end of it: {end}");
    let inside = facts(&|case| case.arguments[4].bytes[..8].copy_from_slice(&(BASE + 8).to_le_bytes()));
    assert!(!inside.contains("noalias noundef align 256"), "a pointer in a structure: {inside}");
    assert!(inside.contains("noalias noundef align 16 dereferenceable(1008) %in"), "{inside}");
    let vendor = facts(&|case| case.allocations[0].kind = AllocationKind::Vendor);
    assert!(!vendor.contains("noalias noundef align 256"), "memory that may be mapped twice: {vendor}");
    let elsewhere = facts(&|case| case.arguments[0].bytes = 64u64.to_le_bytes().to_vec());
    assert!(elsewhere.contains("(ptr %out, "), "a pointer to unknown memory: {elsewhere}");
}

#[test]
fn a_kernel_that_takes_pointers_from_elsewhere_gets_no_noalias() {
    for (line, what) in [
        (
            "%data = load ptr, ptr %data.place",
            "%other = load ptr, ptr %to\n  %data = getelementptr i8, ptr %other, i32 0",
        ),
        ("%data = load ptr, ptr %data.place", "%number = load i64, ptr %to\n  %data = inttoptr i64 %number to ptr"),
        ("%data = load ptr, ptr %data.place", "%data = call ptr asm \"mov.u64 $0, 4096;\", \"=l\"()"),
    ] {
        let mut case = Case::with(|it| it.facts = true);
        case.text = KERNEL.replace(line, what);
        assert_ne!(case.text, KERNEL);
        let signature = case.signature();
        assert!(!signature.contains("noalias") && signature.contains("align 256"), "{what}: {signature}");
    }
}

#[test]
fn facts_let_the_optimiser_drop_a_load() {
    let loads = |facts: bool| {
        let mut case = Case::with(|it| (it.facts, it.passes) = (facts, "default<O2>".into()));
        // The store to the output is between the two loads from the input.
        case.text = KERNEL
            .replace("  %y = load float, ptr %from\n", "  store float 3.0, ptr %to\n  %y = load float, ptr %from\n");
        case.build().unwrap().ptx.unwrap().matches("ld.global").count()
    };
    assert!(loads(true) < loads(false), "{} {}", loads(true), loads(false));
}

#[test]
fn addresses_that_are_passed_as_numbers_stay() {
    let mut case = Case::with(|it| (it.specialize, it.passes) = (Specialize::All, "default<O1>".into()));
    case.text = KERNEL
        .replace("ptr %in, i32", "i64 %in.number, i32")
        .replace("  store ptr %in,", "  %in = inttoptr i64 %in.number to ptr\n  store ptr %in,")
        .replace("%struct.View = type { ptr, i32 }", "%struct.View = type { i64, i32 }")
        .replace(
            "%data = load ptr, ptr %data.place",
            "%of = load i64, ptr %data.place\n  %data = inttoptr i64 %of to ptr",
        );
    let ir = case.build().unwrap().ir.unwrap();
    assert!(ir.contains("inttoptr i64 %in.number") && ir.contains("load i64, ptr %view"), "{ir}");
    assert!(ir.contains(", 1.500000e+00") && ir.contains("1.170000e+02"), "numbers beside them are folded: {ir}");
    case.allocations.clear();
    let ir = case.build().unwrap().ir.unwrap();
    let number = format!("inttoptr (i64 {}", BASE + 0x3000);
    assert!(ir.contains(&number) && !ir.contains("inttoptr i64"), "in no recorded memory: {ir}");
}

#[test]
fn numbers_that_are_an_address_together_stay() {
    let mut case = Case::with(|it| (it.specialize, it.passes) = (Specialize::All, "default<O1>".into()));
    case.text = KERNEL.replace("align 8 %view)", "align 8 %view, { ptr, i32, i32 } %whole)").replace(
        "  %count = add i32 %n, %length\n",
        "  %rows = extractvalue { ptr, i32, i32 } %whole, 1\n  %count = add i32 %rows, %length\n",
    );
    let whole =
        |rows: i32, columns: i32| [&BASE.to_le_bytes()[..], &rows.to_le_bytes(), &columns.to_le_bytes()].concat();
    let stays = |case: &Case| case.build().unwrap().ir.unwrap().contains("extractvalue { ptr, i32, i32 } %whole, 1");
    case.arguments.push(RecordedArgument { offset: 48, bytes: whole(0x200, 0x1000) });
    assert!(stays(&case), "the word of both is in the first allocation");
    case.arguments[5].bytes = whole(0x200, 0x10);
    assert!(!stays(&case));
}

#[test]
fn aggregates_are_folded_and_pointers_in_them_stay() {
    let case = Case::with(|it| (it.specialize, it.passes) = (Specialize::All, "default<O1>".into()));
    let artifact = case.build().unwrap();
    let ir = artifact.ir.unwrap();
    assert!(ir.contains(", 1.500000e+00"), "{ir}");
    assert!(ir.contains("1.170000e+02"), "77 + 40 as a float: {ir}");
    assert!(ir.contains("load ptr, ptr") && !ir.contains("alloca"), "the pointer of the view: {ir}");
    assert_eq!(artifact.log.iter().filter(|line| line.contains("folded")).count(), 3, "{:?}", artifact.log);
    let some = Case::with(|it| (it.specialize, it.passes) = (Specialize::Arguments(vec![2, 3]), "default<O1>".into()))
        .build()
        .unwrap();
    assert_eq!(some.log.iter().filter(|line| line.contains("folded")).count(), 2, "{:?}", some.log);
    assert!(!some.shared_is_static);
}

#[test]
fn an_aggregate_that_the_kernel_writes_is_a_copy() {
    let mut case = Case::with(|it| it.specialize = Specialize::All);
    case.text = KERNEL.replace(
        "  %slope = load float, ptr %pair\n",
        "  store float %x, ptr %pair\n  %slope = load float, ptr %pair\n",
    );
    let ir = case.ir();
    assert!(ir.contains("store float %x, ptr %folded"), "{ir}");
}

#[test]
fn dynamic_shared_memory_becomes_static_where_it_can() {
    let case = Case::with(|it| it.specialize = Specialize::All);
    let artifact = case.build().unwrap();
    assert!(artifact.shared_is_static && artifact.ptx.unwrap().contains(".shared .align 16 .b8 mneme_shared[1024]"));
    assert!(!Case::default().build().unwrap().shared_is_static);
    assert!(
        !Case::with(|it| (it.specialize, it.shared_mem) = (Specialize::All, 64 * 1024))
            .build()
            .unwrap()
            .shared_is_static
    );
    let mut asking = Case::with(|it| it.specialize = Specialize::All);
    asking.text =
        KERNEL.replace("entry:\n", "entry:\n  %size = call i32 asm \"mov.u32 $0, %dynamic_smem_size;\", \"=r\"()\n");
    assert!(!asking.build().unwrap().shared_is_static);
}

#[test]
fn registers_and_the_assembler_obey() {
    let ptx = Case::with(|it| it.maxnreg = 32).build().unwrap().ptx.unwrap();
    assert!(ptx.contains(".maxnreg 32"), "{ptx}");
    let image = |level: u8| Case::with(|it| it.ptx_opt = Some(level)).build().unwrap().image;
    assert_ne!(image(0), image(3));
}

#[test]
fn fast_math_is_what_clang_makes_of_it() {
    let ptx = Case::with(|it| it.fast_math = true).build().unwrap().ptx.unwrap();
    for instruction in ["sin.approx.ftz.f32", "div.approx.ftz.f32", "fma.rn.ftz.f32"] {
        assert!(ptx.contains(instruction), "{instruction}: {ptx}");
    }
    let exact = Case::default().build().unwrap().ptx.unwrap();
    assert!(exact.contains("div.rn.f32") && !exact.contains("ftz"), "{exact}");
}

#[test]
fn what_only_ir_can_give_is_refused_by_name_for_other_code() {
    let ptx = Case::default().build().unwrap().ptx.unwrap();
    let cubin = Case::default().build().unwrap().image;
    let target = Target::Nvptx { arch: "sm_90".into() };
    let build_code = |code: InputCode<'_>, configuration: &Configuration| {
        build(&BuildRequest::new(code, "kernel", &target, configuration))
    };
    let plain = configuration();
    assert!(build_code(InputCode::Ptx(&ptx), &plain).unwrap().image.starts_with(b"\x7fELF"));
    assert_eq!(build_code(InputCode::Cubin(&cubin), &plain).unwrap().image, cubin);
    let limited = Configuration { maxnreg: 24, ..plain.clone() };
    assert!(build_code(InputCode::Ptx(&ptx), &limited).is_ok());
    for (field, changed) in [
        ("passes", Configuration { passes: "default<O1>".into(), ..plain.clone() }),
        ("facts", Configuration { facts: true, ..plain.clone() }),
        ("fast_math", Configuration { fast_math: true, ..plain.clone() }),
        ("specialize", Configuration { specialize: Specialize::All, ..plain.clone() }),
    ] {
        let error = build_code(InputCode::Cubin(&cubin), &changed).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(field), "{error}");
        assert!(build_code(InputCode::Ptx(&ptx), &changed).unwrap().lifted, "{field}");
    }
    assert!(build_code(InputCode::Cubin(&cubin), &limited).unwrap_err().to_string().contains("maxnreg"));
    let cpu = Target::Cpu { arch: "sm_90".into() };
    let on_cpu = |code: InputCode<'_>| build(&BuildRequest::new(code, "kernel", &cpu, &plain));
    assert!(on_cpu(InputCode::Ptx(&ptx)).unwrap().lifted);
    assert!(on_cpu(InputCode::Cubin(&cubin)).unwrap_err().to_string().contains("the CPU device"));
    let stranger = build(&BuildRequest::new(InputCode::Ptx(&ptx), "other", &target, &plain)).unwrap_err().to_string();
    assert!(stranger.contains("no kernel named other; it has kernel"), "{stranger}");
}

#[test]
fn other_code_must_take_the_recorded_arguments() {
    let case = Case::default();
    let modules: [&[u8]; 1] = [KERNEL.as_bytes()];
    let mut request = BuildRequest::new(InputCode::Ir(&modules), "kernel", &case.target, &case.configuration);
    let layout = |offset, size| ArgumentLayout { offset, size, kind: String::new() };
    let wrong = [layout(0, 8), layout(8, 4), layout(12, 4), layout(16, 8), layout(24, 16)];
    request.recorded.signature = &wrong;
    let error = build(&request).unwrap_err().to_string();
    assert!(error.contains("parameter 1 has 8 bytes, but 4 were recorded"), "{error}");
}

#[test]
fn passes_are_numbered_limited_and_shown() {
    let case = Case::default();
    let configuration = Configuration { passes: "default<O2>".into(), ..configuration() };
    let text = KERNEL
        .replace("declare float @__nv_sinf(float)", "define internal float @__nv_sinf(float %x) {\n  ret float %x\n}");
    let modules: [&[u8]; 1] = [text.as_bytes()];
    let mut request = BuildRequest::new(InputCode::Ir(&modules), "kernel", &case.target, &configuration);
    request.keep.before = true;
    request.keep.after = true;
    let observe = |invocations: &mut Invocations| {
        build_with(&request, Hooks { observer: Some(invocations), ..Hooks::default() }).unwrap()
    };
    let mut all = Invocations::default();
    let complete = observe(&mut all);
    assert!(
        all.ran.len() > 30 && all.ran.iter().zip(1..).all(|(invocation, number)| invocation.number == number),
        "{:?}",
        all.ran
    );
    assert!(
        all.ran.iter().any(|invocation| invocation.to_string().ends_with("sroa<modify-cfg> on function kernel")
            || invocation.to_string().ends_with("sroa on function kernel")),
        "{:?}",
        all.ran
    );

    let mut half = Invocations { limit: Some(all.ran.len() as u64 / 2), ..Invocations::default() };
    observe(&mut half);
    assert_eq!(half.ran, all.ran[..all.ran.len() / 2]);
    let mut none = Invocations { limit: Some(0), ..Invocations::default() };
    let untouched = observe(&mut none);
    assert!(
        none.ran.is_empty()
            && untouched.ir.as_ref().unwrap().contains("alloca")
            && !complete.ir.unwrap().contains("alloca")
    );

    let sroa = all
        .ran
        .iter()
        .find(|invocation| invocation.pass.starts_with("sroa") && invocation.unit == "function kernel")
        .unwrap();
    let mut shown = Invocations { shown: Some(sroa.number), ..Invocations::default() };
    observe(&mut shown);
    assert!(shown.before.unwrap().contains("alloca") && !shown.after.unwrap().contains("alloca"));
}

#[test]
fn what_llvm_remarks_is_in_the_log() {
    let text = r#"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare void @unknown(ptr)
define void @kernel(ptr %out, i64 %n) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  call void @unknown(ptr %out)
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %n
  br i1 %again, label %body, label %done, !llvm.loop !1
done:
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.vectorize.enable", i1 true}
"#;
    let target = Target::Nvptx { arch: "sm_90".into() };
    let configuration = Configuration { passes: "default<O3>".into(), ..configuration() };
    let modules: [&[u8]; 1] = [text.as_bytes()];
    // Its PTX needs an undefined function, so the build stops before the assembler.
    let mut is_known = |_: &str| true;
    let request = BuildRequest::new(InputCode::Ir(&modules), "kernel", &target, &configuration);
    let log = build_with(&request, Hooks { is_known: Some(&mut is_known), ..Hooks::default() }).unwrap().log;
    assert!(log.iter().any(|line| line.starts_with("warning: ") && line.contains("loop not vectorized")), "{log:?}");
}

#[test]
fn preloaded_ir_builds_the_same_code_once() {
    let case = Case::default();
    let text = KERNEL
        .replace("declare float @__nv_sinf(float)", "define internal float @__nv_sinf(float %x) {\n  ret float %x\n}");
    let text = format!("{text}\ndefine void @unreached() {{ ret void }}\n");
    let modules: [&[u8]; 1] = [text.as_bytes()];
    let configuration = Configuration { passes: "default<O3>".into(), ..configuration() };
    let mut request = BuildRequest::new(InputCode::Ir(&modules), "kernel", &case.target, &configuration);
    let expected = build(&request).unwrap();
    let preloaded = mneme_compiler::preload(&modules, "kernel", &[], &case.target).unwrap();
    request.code = InputCode::Loaded(&preloaded);
    assert_eq!(build(&request).unwrap().image, expected.image);
    assert!(build(&request).is_err());
}

#[test]
fn equal_ptx_need_not_be_assembled_again() {
    let case = Case::default();
    let ptx = case.build().unwrap().ptx.unwrap();
    let mut asked = None;
    let mut is_known = |ptx: &str| {
        asked = Some(ptx.to_owned());
        true
    };
    let request = BuildRequest::new(InputCode::Ptx(&ptx), "kernel", &case.target, &case.configuration);
    let artifact = build_with(&request, Hooks { is_known: Some(&mut is_known), ..Hooks::default() }).unwrap();
    assert!(artifact.image.is_empty());
    assert_eq!(asked.as_deref(), Some(ptx.as_str()));
}

/// A pass that turns every `fmul` into a constant.
const PLUGIN: &str = r#"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
using namespace llvm;
struct Spoil : PassInfoMixin<Spoil> {
  PreservedAnalyses run(Function &F, FunctionAnalysisManager &) {
    for (auto &B : F)
      for (auto &I : B)
        if (I.getOpcode() == Instruction::FMul)
          I.replaceAllUsesWith(ConstantFP::get(I.getType(), 42.0));
    return PreservedAnalyses::none();
  }
};
extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Spoil", "1", [](PassBuilder &PB) {
            PB.registerPipelineParsingCallback([](StringRef Name, FunctionPassManager &FPM, ArrayRef<PassBuilder::PipelineElement>) {
              if (Name != "spoil")
                return false;
              FPM.addPass(Spoil());
              return true;
            });
          }};
}
"#;

#[test]
fn passes_of_a_plugin_run_in_opt() {
    let folder = tempfile::tempdir().unwrap();
    let (source, plugin) = (folder.path().join("spoil.cpp"), folder.path().join("spoil.so"));
    std::fs::write(&source, PLUGIN).unwrap();
    let built = Command::new(concat!("clang++-", env!("MNEME_LLVM_MAJOR")))
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            "-std=c++17",
            "-fno-rtti",
            "-w",
            concat!("-I/usr/lib/llvm-", env!("MNEME_LLVM_MAJOR"), "/include"),
        ])
        .args([&source, std::path::Path::new("-o"), &plugin])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut case = Case::with(|it| it.passes = "function(spoil),default<O1>".into());
    assert!(case.build().unwrap_err().to_string().contains("spoil"), "only the plugin has this pass");
    case.external = Some(External { program: None, plugins: vec![plugin], arguments: Vec::new() });
    let ir = case.ir();
    assert!(ir.contains("4.200000e+01"), "{ir}");
    case.configuration.passes = "function(spoil),no-such".into();
    let error = case.build().unwrap_err().to_string();
    assert!(error.contains(concat!("opt-", env!("MNEME_LLVM_MAJOR"))) && error.contains("no-such"), "{error}");
    case.external = Some(External { program: Some("/no/such/opt".into()), ..External::default() });
    assert!(case.build().unwrap_err().to_string().contains("cannot be run"));
}

#[test]
fn an_unknown_pass_is_answered_with_the_one_that_was_meant() {
    let error = Case::with(|it| it.passes = "function(loop(loop-rotat))".into()).build().unwrap_err().to_string();
    assert!(error.contains("'loop-rotat'") && error.contains("did you mean 'loop-rotate'"), "{error}");
}

#[test]
fn assembly_text_and_bitcode_are_the_same_to_us() {
    let context = Context::create();
    let text = KERNEL
        .replace("declare float @__nv_sinf(float)", "define internal float @__nv_sinf(float %x) {\n  ret float %x\n}");
    let module =
        context.create_module_from_ir(MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test")).unwrap();
    let bitcode = module.write_bitcode_to_memory().as_slice().to_vec();
    let case = Case::default();
    let image = |bytes: &[u8]| {
        build(&BuildRequest::new(InputCode::Ir(&[bytes]), "kernel", &case.target, &case.configuration)).unwrap().image
    };
    assert_eq!(image(text.as_bytes()), image(&bitcode));
    let wrong =
        build(&BuildRequest::new(InputCode::Ir(&[b"define nothing"]), "kernel", &case.target, &case.configuration))
            .unwrap_err();
    assert!(matches!(&wrong, BuildError::Bitcode { message } if !message.contains('\n')), "{wrong}");
}
