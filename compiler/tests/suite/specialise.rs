//! Tests of the changes that preparation makes to the IR.
//!
//! They examine the IR that a build returns, and its PTX.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use mneme_builds::{ImageKind, Target};
use mneme_compiler::{Artifact, BuildError, BuildRequest, InputCode, build};
use mneme_model::configuration::{Configuration, Specialize};
use mneme_model::launch::Dim3;
use mneme_recording::manifest::{RecordedArgument, RecordedVariable};

const KERNEL: &str = r#"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@counter = addrspace(1) externally_initialized global i32 0
@target = internal addrspace(1) externally_initialized global ptr addrspacecast (ptr addrspace(1) @counter to ptr)
@weights = internal addrspace(4) externally_initialized global [4 x i32] zeroinitializer
@ftz = private constant [12 x i8] c"__CUDA_FTZ\00\00"
@arch = private constant [12 x i8] c"__CUDA_ARCH\00"
@llvm.used = appending global [1 x ptr] [ptr @other], section "llvm.metadata"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @__nvvm_reflect(ptr)

define i32 @helper(i32 %x) {
  %y = mul i32 %x, 3
  ret i32 %y
}
define void @other(ptr %p) {
  %x = call i32 @unreached(i32 1)
  ret void
}
define i32 @unreached(i32 %x) {
  ret i32 %x
}
define void @kernel(ptr %out, i32 %n, double %scale) {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %ftz = call i32 @__nvvm_reflect(ptr @ftz)
  %arch = call i32 @__nvvm_reflect(ptr @arch)
  %weight = load i32, ptr addrspace(4) @weights
  %old = atomicrmw add ptr addrspace(1) @counter, i32 %weight monotonic
  %where = load ptr, ptr addrspace(1) @target
  %help = call i32 @helper(i32 %n)
  %s = fptosi double %scale to i32
  %a = add i32 %tid, %ntid
  %b = add i32 %a, %ctaid
  %c = add i32 %b, %ftz
  %d = add i32 %c, %arch
  %e = add i32 %d, %help
  %f = add i32 %e, %s
  store i32 %f, ptr %out
  store i32 %f, ptr %where
  ret void
}

!nvvm.annotations = !{!0, !1, !2}
!llvm.module.flags = !{!3}
!0 = !{ptr @kernel, !"kernel", i32 1}
!1 = !{ptr @other, !"kernel", i32 1}
!2 = !{ptr @kernel, !"maxntidx", i32 64, !"minctasm", i32 7}
!3 = !{i32 4, !"nvvm-reflect-ftz", i32 1}
"#;

fn bitcode(text: &str) -> Vec<u8> {
    let context = Context::create();
    let text = format!("{text}\0");
    let module =
        context.create_module_from_ir(MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test")).unwrap();
    module.write_bitcode_to_memory().as_slice().to_vec()
}

fn configuration() -> Configuration {
    let mut configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
    configuration.passes = String::new();
    configuration
}

struct Case<'a> {
    configuration: Configuration,
    arguments: Vec<RecordedArgument>,
    variables: Vec<RecordedVariable>,
    modules: Vec<&'a str>,
    target: Target,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            configuration: configuration(),
            arguments: vec![],
            variables: vec![],
            modules: vec![KERNEL],
            target: Target::Nvptx { arch: "sm_90".into() },
        }
    }
}

impl Case<'_> {
    fn build(&self) -> Result<Artifact, BuildError> {
        let modules: Vec<Vec<u8>> = self.modules.iter().map(|text| bitcode(text)).collect();
        let modules: Vec<&[u8]> = modules.iter().map(Vec::as_slice).collect();
        let mut request = BuildRequest::new(InputCode::Ir(&modules), "kernel", &self.target, &self.configuration);
        request.recorded.arguments = &self.arguments;
        request.recorded.variables = &self.variables;
        request.keep.after = true;
        build(&request)
    }

    fn ir(&self) -> String {
        // Later versions write the calling convention of NVIDIA's kernels.
        self.build().unwrap().ir.unwrap().replace("ptx_kernel ", "")
    }
}

fn variable(name: &str, address: u64, size: u64, constant: bool) -> RecordedVariable {
    RecordedVariable { name: name.into(), address, size, constant, code: false, functions: Vec::new() }
}

#[test]
fn what_the_kernel_does_not_reach_goes_and_the_rest_is_hidden() {
    let mut hidden = Case::default();
    hidden.configuration.internalize = true;
    let ir = hidden.ir();
    assert!(ir.contains("define internal i32 @helper") && !ir.contains("@other") && !ir.contains("@unreached"), "{ir}");

    let mut kept = Case::default();
    (kept.configuration.prune, kept.configuration.internalize) = (false, true);
    let ir = kept.ir();
    assert!(ir.contains("define internal void @other") && ir.contains("define internal i32 @unreached"), "{ir}");

    let ir = Case::default().ir();
    assert!(ir.contains("define i32 @helper") && !ir.contains("@unreached"), "{ir}");
}

#[test]
fn reflection_is_answered_for_any_pipeline() {
    let ir = Case::default().ir();
    assert!(!ir.contains("__nvvm_reflect"), "{ir}");
    assert!(ir.contains("%c = add i32 %b, 1") && ir.contains("%d = add i32 %c, 900"), "{ir}");
}

#[test]
fn scalar_arguments_are_folded_and_the_signature_stays() {
    let arguments = vec![
        RecordedArgument { offset: 0, bytes: vec![1; 8] },
        RecordedArgument { offset: 8, bytes: 77i32.to_le_bytes().to_vec() },
        RecordedArgument { offset: 16, bytes: 2.5f64.to_le_bytes().to_vec() },
    ];
    let mut case = Case { arguments, ..Case::default() };
    assert!(case.ir().contains("@helper(i32 %n)"));
    case.configuration.specialize = Specialize::All;
    let ir = case.ir();
    assert!(ir.contains("define void @kernel(ptr %out, i32 %n, double %scale)"), "{ir}");
    assert!(ir.contains("@helper(i32 77)") && ir.contains("fptosi double 2.5"), "{ir}");
    assert!(ir.contains("ptr %out\n") || ir.contains("ptr %out,"), "pointers are not folded: {ir}");
}

/// The replacement of an aggregate has the aggregate's alignment, whatever it is, and no access in it assumes a larger
/// one.
#[test]
fn aggregates_keep_their_alignment() {
    for alignment in (0..=8).map(|shift| 1u64 << shift) {
        for (ty, written) in ["%One", "%Nested", "[2 x %Nested]"].into_iter().flat_map(|ty| [(ty, false), (ty, true)]) {
            let body = if written { "  store i8 1, ptr %whole, align 1\n" } else { "" };
            let text = format!(
                "target datalayout = \"e-i64:64-i128:128-v16:16-v32:32-n16:32:64\"
target triple = \"nvptx64-nvidia-cuda\"
%One = type <{{ i32, [{padding} x i8] }}>
%Nested = type <{{ %One, ptr, [{rest} x i8] }}>
define void @kernel(ptr %out, ptr byval({ty}) align {alignment} %whole) {{
{body}  %x = load i32, ptr %whole, align {least}
  store i32 %x, ptr %out
  ret void
}}
!nvvm.annotations = !{{!0}}
!0 = !{{ptr @kernel, !\"kernel\", i32 1}}
",
                padding = alignment.max(4) - 4,
                rest = alignment.saturating_sub(8),
                least = alignment.min(4),
            );
            let one = alignment.max(4);
            let nested = one + 8 + alignment.saturating_sub(8);
            let size = match ty {
                "%One" => one,
                "%Nested" => nested,
                _ => 2 * nested,
            };
            let arguments = vec![
                RecordedArgument { offset: 0, bytes: vec![1; 8] },
                RecordedArgument { offset: 8u64.next_multiple_of(alignment) as u32, bytes: vec![2; size as usize] },
            ];
            let mut case = Case { arguments, modules: vec![&text], ..Case::default() };
            case.configuration.specialize = Specialize::Arguments(vec![1]);
            let ir = case.ir();
            let of = |what: &str| -> Vec<u64> {
                let lines = ir.lines().filter(|line| line.contains(what));
                lines.filter_map(|line| line.rsplit_once("align ")?.1.split([',', ' ']).next()?.parse().ok()).collect()
            };
            let made = [of("alloca "), of("@mneme_folded =")].concat();
            assert!(!made.is_empty() && made.iter().all(|made| *made == alignment), "{alignment} {ty}: {ir}");
            let passed = of("load ptr, ptr %");
            assert_eq!(passed.is_empty(), ty == "%One", "{ir}");
            // The first pointer comes after the first part.
            let least = alignment.min(one & one.wrapping_neg());
            assert!(passed.first().is_none_or(|aligned| *aligned <= least), "{alignment} {ty}: {ir}");
        }
    }
}

#[test]
fn dimensions_become_constants_and_ranges() {
    let mut case = Case::default();
    case.configuration.specialize_dims = true;
    let ir = case.ir();
    assert!(ir.contains("add i32 %tid, 128") && ir.contains("add i32 %a, 0"), "{ir}");
    assert!(ir.contains("!range") && ir.contains("!{i32 0, i32 128}"), "{ir}");
}

#[test]
fn launch_bounds_replace_the_sources() {
    let ptx = Case::default().build().unwrap().ptx.unwrap();
    assert!(ptx.contains(".maxntid 64") && ptx.contains(".minnctapersm 7"), "{ptx}");
    let mut case = Case::default();
    case.configuration.set_launch_bounds = true;
    case.configuration.max_threads = Some(256);
    let ptx = case.build().unwrap().ptx.unwrap();
    assert!(ptx.contains(".maxntid 256") && !ptx.contains(".minnctapersm"), "{ptx}");
    case.configuration.min_blocks_per_sm = 2;
    assert!(case.build().unwrap().ptx.unwrap().contains(".minnctapersm 2"));
}

#[test]
fn device_variables_are_where_they_were_and_constants_keep_their_name() {
    let variables = vec![
        variable("counter", 0x7f00_1000, 4, false),
        variable("target", 0x7f00_2000, 8, false),
        variable("weights", 0x7f00_3000, 16, true),
        variable("gone", 1, 4, false),
    ];
    let mut case = Case { variables, ..Case::default() };
    let artifact = case.build().unwrap();
    let ir = artifact.ir.unwrap();
    assert!(ir.contains("@counter = external addrspace(1)") && ir.contains("@target = external addrspace(1)"), "{ir}");
    let ptx = artifact.ptx.unwrap();
    assert!(ptx.contains(".visible .const .align 4 .b8 weights"), "a host finds it by name");
    let addresses = [0x7f00_1000u64, 0x7f00_2000].map(|address| format!(", {address};"));
    assert!(addresses.iter().all(|address| ptx.contains(address)) && !ptx.contains("counter"), "{ptx}");
    // A variable that contains the address of another one.
    case.variables.remove(1);
    let ptx = case.build().unwrap().ptx.unwrap();
    assert!(ptx.contains(&format!("{}", 0x7f00_1000u64)), "{ptx}");
}

#[test]
fn on_the_cpu_device_constants_too_are_where_they_were() {
    let variables = vec![
        variable("counter", 0x7f00_1000, 4, false),
        variable("target", 0x7f00_2000, 8, false),
        variable("weights", 0x7f00_3000, 16, true),
    ];
    let case = Case { variables, target: Target::Cpu { arch: "sm_90".into() }, ..Case::default() };
    let artifact = case.build().unwrap();
    assert_eq!(artifact.kind, ImageKind::CpuObject);
    assert!(artifact.image.starts_with(b"\x7fELF"));
    let ir = artifact.ir.unwrap();
    assert!(
        !ir.contains("@weights") && ir.contains(&format!("inttoptr (i64 {} to ptr addrspace(4))", 0x7f00_3000u64)),
        "{ir}"
    );
}

#[test]
fn modules_are_linked_and_missing_or_clashing_definitions_are_errors() {
    let declared = KERNEL
        .replace("define i32 @helper(i32 %x) {\n  %y = mul i32 %x, 3\n  ret i32 %y\n}", "declare i32 @helper(i32)");
    let helper = "target triple = \"nvptx64-nvidia-cuda\"\ndefine i32 @helper(i32 %x) {\n  %y = mul i32 %x, 5\n  ret i32 %y\n}\n";
    let linked = Case { modules: vec![&declared, helper], ..Case::default() };
    assert!(linked.ir().contains("mul i32 %x, 5"));
    let missing = Case { modules: vec![&declared], ..Case::default() };
    assert!(matches!(missing.build(), Err(BuildError::Assemble { message, .. }) if message.contains("helper")));
    let clashing = Case { modules: vec![KERNEL, helper], ..Case::default() };
    assert!(matches!(clashing.build(), Err(BuildError::Link { message }) if message.contains("helper")));
}

#[test]
fn errors_say_what_is_wrong() {
    let mut unknown = Case::default();
    unknown.configuration.passes = "default<O3>,no-such-pass".into();
    let error = unknown.build().unwrap_err().to_string();
    assert!(error.contains("unknown module pass 'no-such-pass'"), "{error}");

    let mut stranger = Case::default();
    let text = KERNEL.replace("@kernel", "@elsewhere");
    stranger.modules = vec![&text];
    assert!(matches!(stranger.build(), Err(BuildError::NoKernel { kernel, .. }) if kernel == "kernel"));

    let mut block = Case::default();
    block.configuration.block = Dim3::new(4096, 1, 1);
    assert!(block.build().unwrap_err().to_string().contains("4096"));
}

#[test]
fn hand_written_pipelines_with_a_bare_instcombine_run() {
    let mut case = Case::default();
    case.configuration.passes = "function(sroa,early-cse),inline,instcombine,globaldce".into();
    case.configuration.internalize = true;
    let ir = case.ir();
    assert!(!ir.contains("@helper"), "inlined: {ir}");
}

#[test]
fn allocations_on_the_heap_are_counted() {
    let count = "@__mneme_heap_allocations";
    assert!(!Case::default().ir().contains(count), "this kernel allocates nothing");
    let functions = "declare ptr @malloc(i64)\ndeclare void @free(ptr)\ndefine i32 @helper";
    let calls = "  %room = call ptr @malloc(i64 8)\n  store ptr %room, ptr %out\n  call void @free(ptr %where)\n";
    let text = KERNEL.replace("define i32 @helper", functions);
    let text = text.replace("  store i32 %f, ptr %where\n", calls);
    for passes in ["", "default<O3>"] {
        let mut case = Case { modules: vec![&text], ..Case::default() };
        case.configuration.passes = passes.into();
        let ir = case.ir();
        for change in ["add", "sub"] {
            let changes = ir.matches(&format!("atomicrmw {change} ptr addrspace(1) {count}")).count();
            assert_eq!(changes, 1, "{passes}: {ir}");
        }
    }
}
