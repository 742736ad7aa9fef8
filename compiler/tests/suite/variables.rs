//! Tests of recorded variables: what passes may assume about them, and what replaces them in the code.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use mneme_builds::progress::Stage;
use mneme_builds::{Keep, Target};
use mneme_compiler::{BuildError, BuildRequest, InputCode, build, preload};
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_recording::manifest::RecordedVariable;

const KERNEL: &str = r#"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@log = internal addrspace(1) global i32 0
@once = internal addrspace(1) global i32 0
@gain = internal addrspace(1) global float 3.0
@shift = internal addrspace(4) global i32 3
@shown = addrspace(1) externally_initialized global i32 0
@row = dso_local addrspace(1) externally_initialized global [4 x float] zeroinitializer, align 4
@start = addrspace(1) externally_initialized global ptr @helper

define void @helper(ptr %out) {
  ret void
}
define void @kernel(ptr %out, i32 %n) {
entry:
  %by = load i32, ptr addrspace(4) @shift
  %value = shl i32 %n, %by
  store i32 %value, ptr addrspace(1) @log
  store i32 %value, ptr addrspace(1) @shown
  %done = load i32, ptr addrspace(1) @once
  %first = icmp eq i32 %done, 0
  br i1 %first, label %mark, label %loop
mark:
  store i32 1, ptr addrspace(1) @once
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ 0, %mark ], [ %next, %loop ]
  %factor = load float, ptr addrspace(1) @gain
  %place = getelementptr float, ptr %out, i32 %i
  %old = load float, ptr %place
  %new = fmul float %old, %factor
  store float %new, ptr %place
  %next = add i32 %i, 1
  %last = icmp eq i32 %next, %n
  br i1 %last, label %end, label %loop
end:
  %four = load <4 x float>, ptr addrspace(1) @row, align 4
  %sum = call float @llvm.vector.reduce.fadd.v4f32(float 0.0, <4 x float> %four)
  store float %sum, ptr %out
  %called = load ptr, ptr addrspace(1) @start
  %known = icmp eq ptr %called, null
  %flag = zext i1 %known to i32
  store i32 %flag, ptr %out
  ret void
}
define void @reader(ptr %out) {
  %value = load i32, ptr addrspace(1) @log
  store i32 %value, ptr %out
  OTHER
  ret void
}
declare float @llvm.vector.reduce.fadd.v4f32(float, <4 x float>)

!nvvm.annotations = !{!0, !1}
!0 = !{ptr @kernel, !"kernel", i32 1}
!1 = !{ptr @reader, !"kernel", i32 1}
"#;

/// The address and size of each variable.
const VARIABLES: [(&str, u64, u64); 6] = [
    ("log", 0x7f00_1000, 4),
    ("once", 0x7f00_1010, 4),
    ("gain", 0x7f00_1020, 4),
    ("shown", 0x7f00_1030, 4),
    ("row", 0x7f00_1040, 16),
    ("start", 0x7f00_1080, 8),
];

struct Case {
    /// Code of the kernel that is pruned.
    other: &'static str,
    passes: &'static str,
    variables: Vec<RecordedVariable>,
    application: Option<CompileOptions>,
    internalize: bool,
}

impl Case {
    fn new(passes: &'static str) -> Self {
        let variables = VARIABLES.map(|(name, address, size)| RecordedVariable {
            name: name.into(),
            address,
            size,
            constant: false,
            code: false,
            functions: Vec::new(),
        });
        let shift = RecordedVariable {
            name: "shift".into(),
            address: 0x7f00_2000,
            size: 4,
            constant: true,
            code: false,
            functions: Vec::new(),
        };
        Self {
            other: "",
            passes,
            variables: variables.into_iter().chain([shift]).collect(),
            application: Some(CompileOptions::of_clang(&["-O0".into()])),
            internalize: false,
        }
    }

    fn bitcode(&self) -> Vec<u8> {
        let context = Context::create();
        let text = KERNEL.replace("OTHER", self.other) + "\0";
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
        context.create_module_from_ir(buffer).unwrap().write_bitcode_to_memory().as_slice().to_vec()
    }

    fn build(&self) -> Result<String, BuildError> {
        let bitcode = self.bitcode();
        self.build_from(InputCode::Ir(&[&bitcode]))
    }

    fn build_from(&self, code: InputCode<'_>) -> Result<String, BuildError> {
        let mut configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
        (configuration.passes, configuration.internalize) = (self.passes.into(), self.internalize);
        let target = Target::Nvptx { arch: "sm_90".into() };
        let mut request = BuildRequest::new(code, "kernel", &target, &configuration);
        request.recorded.variables = &self.variables;
        request.recorded.compiled = self.application.as_ref();
        request.keep = Keep { after: true, until: Some(Stage::Pipeline), ..Keep::default() };
        Ok(build(&request)?.ir.unwrap())
    }

    fn ir(&self) -> String {
        self.build().unwrap_or_else(|error| panic!("{error}"))
    }

    fn set(&mut self, name: &str, change: impl Fn(&mut RecordedVariable)) {
        self.variables.iter_mut().filter(|variable| variable.name == name).for_each(change);
    }
}

/// The lines that access a variable.
fn accesses<'t>(ir: &'t str, name: &str) -> Vec<&'t str> {
    let pointer = format!("ptr addrspace(1) @{name},");
    ir.lines().filter(|line| line.contains(&pointer)).collect()
}

/// Whether the kernel's loop reads the variable in each iteration.
fn reads_in_the_loop(ir: &str) -> bool {
    let body = ir.split("\nloop:").nth(1).unwrap().split("\nend:").next().unwrap();
    !accesses(body, "gain").is_empty()
}

#[test]
fn what_other_code_may_read_is_written_and_what_it_may_write_is_read() {
    let mut case = Case::new("default<O3>");
    for internalize in [false, true] {
        case.internalize = internalize;
        let ir = case.ir();
        assert!(accesses(&ir, "log").iter().any(|line| line.contains("store i32")), "{ir}");
        assert!(accesses(&ir, "shown").iter().any(|line| line.contains("store i32")), "{ir}");
        assert!(accesses(&ir, "once").iter().any(|line| line.contains("load i32")), "{ir}");
        assert!(accesses(&ir, "gain").iter().any(|line| line.contains("load float")), "{ir}");
        let defined = |name: &str| ir.contains(&format!("@{name} = ")) && !ir.contains(&format!("@{name} = external "));
        for (name, ..) in VARIABLES {
            assert!(!defined(name), "{name} is left: {ir}");
        }
        for name in ["@reader", "@helper", "@__mneme"] {
            assert!(!ir.contains(name), "{name} is left: {ir}");
        }
    }
}

#[test]
fn who_else_knows_a_private_variable_is_seen_before_other_code_is_pruned() {
    const PASSES: &str = "function(simplifycfg),require<globals-aa>,function(loop-mssa(licm))";
    let ir = Case::new(PASSES).ir();
    assert!(!reads_in_the_loop(&ir), "its address is unknown elsewhere: {ir}");
    for other in [
        "store ptr addrspace(1) @gain, ptr %out",
        "%a = addrspacecast ptr addrspace(1) @gain to ptr\n call void @helper(ptr %a)",
        "store ptr addrspacecast (ptr addrspace(1) @gain to ptr), ptr %out",
    ] {
        let case = Case { other, ..Case::new(PASSES) };
        assert!(reads_in_the_loop(&case.ir()), "{other}: {}", case.ir());
        let target = Target::Nvptx { arch: "sm_90".into() };
        let preloaded = preload(&[&case.bitcode()], "kernel", &case.variables, &target).unwrap();
        let ir = case.build_from(InputCode::Loaded(&preloaded)).unwrap();
        assert!(reads_in_the_loop(&ir), "{other}, read before: {ir}");
    }
    let case = Case { other: "store float 1.0, ptr addrspace(1) @gain", ..Case::new(PASSES) };
    assert!(!reads_in_the_loop(&case.ir()), "only direct stores write it, and none is in the loop: {}", case.ir());
}

#[test]
fn initial_values_count_where_the_program_was_compiled_from_the_ir() {
    let ir = Case::new("default<O3>").ir();
    assert!(ir.contains("shl i32 %n, 3") && !ir.contains("@shift"), "{ir}");
    // For a program of another compiler, no assumptions hold.
    let case = Case { application: None, ..Case::new("default<O3>") };
    let ir = case.ir();
    assert!(ir.contains("@shift = ") && ir.contains("shl i32 %n, %by"), "{ir}");
    // Passes that keep a private constant keep it under its name.
    let ir = Case::new("").ir();
    assert!(ir.contains("@shift = dso_local addrspace(4) global"), "{ir}");
}

#[test]
fn accesses_are_as_aligned_as_the_recorded_address() {
    let mut case = Case::new("infer-alignment");
    let ir = case.ir();
    assert!(accesses(&ir, "row").iter().any(|line| line.ends_with("align 16")), "{ir}");
    case.set("row", |variable| variable.address = 0x7f00_1044);
    let ir = case.ir();
    assert!(accesses(&ir, "row").iter().any(|line| line.ends_with("align 4")), "{ir}");
}

#[test]
fn a_variable_that_another_compiler_has_shrunk_is_not_overrun() {
    let mut case = Case::new("default<O0>");
    case.set("once", |variable| variable.size = 1);
    let error = case.build().unwrap_err();
    let text = error.to_string();
    assert!(
        error.is_usage() && text.contains("the variable once has 4 bytes in this code, and 1 were recorded"),
        "{text}"
    );
    // The passes of the application change it in the same way again.
    case.passes = "default<O3>";
    let ir = case.ir();
    assert!(accesses(&ir, "once").iter().any(|line| line.contains("load i8") || line.contains("load i1")), "{ir}");
}
