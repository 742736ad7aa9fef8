//! Tests of lifting: supported and refused PTX, and whether lifted code computes what the PTX does.

mod device;
mod libraries;
mod random;
pub(crate) mod table;

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::passes::PassBuilderOptions;
use inkwell::values::AsValueRef;
use proptest::prelude::*;

use mneme_ptx::{Lifted, lift, lift_program};

use super::CLEANUP;
use crate::cpu::tests::nvptx;
use crate::cpu::tests::run::{Parameters, Program as Object};
use crate::cpu::{LowerOptions, lower};
use random::{Program, Random, State};

const HEADER: &str = ".version 8.3\n.target sm_90\n.address_size 64\n";

/// A module with one kernel.
fn kernel(params: &str, body: &str) -> String {
    format!(
        "{HEADER}.visible .entry k({params}) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n\
         .reg .pred %p<9>;\n{body}\nret; }}\n"
    )
}

fn lifted(text: &str) -> Lifted {
    let lifted = lift(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    verify(&lifted.ir, "");
    lifted
}

/// Reads IR, and runs the clean-up and a pipeline. Returns the resulting text.
fn verify(ir: &str, pipeline: &str) -> String {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(ir.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).unwrap_or_else(|error| panic!("{error}\n{ir}"));
    module.verify().unwrap_or_else(|error| panic!("{error}\n{ir}"));
    for passes in [CLEANUP, pipeline].into_iter().filter(|passes| !passes.is_empty()) {
        module.run_passes(passes, &nvptx(), PassBuilderOptions::create()).unwrap();
    }
    crate::ir::text(&module)
}

/// The lifted kernels for the CPU device.
fn object(ir: &str, pipeline: &str) -> Vec<u8> {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(ir.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).unwrap_or_else(|error| panic!("{error}\n{ir}"));
    for passes in [CLEANUP, pipeline].into_iter().filter(|passes| !passes.is_empty()) {
        module.run_passes(passes, &nvptx(), PassBuilderOptions::create()).unwrap();
    }
    lower(module, &LowerOptions::new(2), &mut |_, _| true).unwrap_or_else(|error| panic!("{pipeline}: {error}"))
}

fn refused(text: &str) -> String {
    lift(text).map(|lifted| lifted.ir).expect_err(text).to_string()
}

#[test]
fn random_programs_do_what_ptx_says() {
    const KERNELS: u64 = 60;
    const THREADS: usize = 32;
    let mut random = Random(20_260_101);
    let programs: Vec<Program> = (0..KERNELS).map(|_| Program::random(&mut random, 24)).collect();
    let mut text = HEADER.to_owned();
    for (number, program) in programs.iter().enumerate() {
        text.push_str(&format!(
            ".visible .entry k{number:03}(.param .u64 in, .param .u64 out) {{\n{}}}\n",
            program.text()
        ));
    }
    let lifted = lift(&text).unwrap();
    for pipeline in ["", "default<O3>"] {
        let object = Object::link(&object(&lifted.ir, pipeline));
        for (number, program) in programs.iter().enumerate() {
            let mut states: Vec<State> = (0..THREADS).map(|_| State::random(&mut random)).collect();
            let mut input: Vec<u64> = states.iter().flat_map(State::raw).collect();
            let mut output = vec![0u64; input.len()];
            let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
            object.launch(&format!("k{number:03}"), 1, THREADS as u32, parameters.get());
            for (thread, state) in states.iter_mut().enumerate() {
                let before = state.clone();
                program.run(state);
                let row = state.bytes().len();
                let found = State::of(&output[thread * row..][..row]);
                assert_eq!(
                    found.bytes(),
                    state.bytes(),
                    "kernel {number}, thread {thread}, '{pipeline}'\n{before:?}\n{found:?}\n{state:?}\n{}",
                    program.text()
                );
            }
        }
    }
}

#[test]
fn narrow_addresses_of_shared_memory_lead_there() {
    let text = format!(
        "{HEADER}.extern .shared .align 16 .b8 dynamic[];\n\
         .visible .entry k(.param .u64 out) {{ .reg .b32 %r<16>; .reg .b64 %rd<16>; .shared .align 4 .b32 own[32];\n\
         mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, own; add.s32 %r4, %r3, %r2;\n\
         mul.lo.u32 %r5, %r1, %r1; st.shared.u32 [%r4], %r5;\n\
         mov.u32 %r6, dynamic; add.s32 %r7, %r6, %r2; st.volatile.shared.u32 [%r7+16], %r1; bar.sync 0;\n\
         xor.b32 %r8, %r2, 124; add.s32 %r9, %r3, %r8; ld.shared.u32 %r10, [%r9];\n\
         add.s32 %r11, %r7, 8; atom.shared.add.u32 %r12, [%r11+8], 100;\n\
         cvt.u64.u32 %rd1, %r4; cvta.shared.u64 %rd2, %rd1; ld.u32 %r13, [%rd2];\n\
         cvta.to.shared.u64 %rd3, %rd2; cvt.u32.u64 %r14, %rd3; ld.shared.u32 %r15, [%r14];\n\
         add.s32 %r10, %r10, %r12; sub.s32 %r13, %r13, %r15; add.s32 %r10, %r10, %r13;\n\
         ld.param.u64 %rd4, [out]; mul.wide.u32 %rd5, %r2, 1; add.s64 %rd6, %rd4, %rd5; st.global.u32 [%rd6], %r10; ret; }}\n"
    );
    let lifted = lifted(&text);
    for pipeline in ["", "default<O1>", "default<O3>"] {
        let mut output = [0u32; 32];
        let parameters = Parameters::default().pointer(output.as_mut_ptr());
        Object::link(&object(&lifted.ir, pipeline)).launch("k", 1, 32, parameters.get());
        let expected: Vec<u32> = (0..32u32).map(|thread| (31 - thread).pow(2) + thread).collect();
        assert_eq!(output[..], expected, "'{pipeline}'");
    }
}

#[test]
fn parameters_and_addresses_are_what_a_front_end_makes_of_them() {
    let text = kernel(
        ".param .u64 out, .param .u32 n, .param .align 8 .b8 s[24]",
        "ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; ld.param.u32 %r1, [n]; mul.wide.u32 %rd3, %r1, 4;\n\
         add.s64 %rd4, %rd2, %rd3; ld.param.u32 %r2, [s+8]; st.global.u32 [%rd4+16], %r2;",
    );
    let ir = verify(&lifted(&text).ir, "instcombine");
    // `nvvm.grid_constant` is an attribute in some versions of LLVM, and metadata in others.
    let header = ir.replace(" \"nvvm.grid_constant\"", "");
    assert!(header.contains("void @k(ptr %P0, i32 %P1, ptr byval(<{ [24 x i8] }>) align 8 %P2)"), "{ir}");
    assert!(!ir.contains("inttoptr") && !ir.contains("ptrtoint") && !ir.contains("alloca"), "{ir}");
    assert!(ir.contains("getelementptr"), "{ir}");
}

#[test]
fn variables_have_their_initial_values() {
    // nvcc writes an address into an array of bytes like this.
    let masked: Vec<String> = (0..8).map(|byte| format!("{:#x}(generic(n))", 0xffu64 << (8 * byte))).collect();
    let text = format!(
        "{HEADER}.global .align 4 .u32 n = 7;\n.visible .global .align 8 .u64 places[3] = {{n, generic(n)+4, k}};\n\
         .global .align 8 .b8 bytes[20] = {{1, 0, 0, 0, {masked}, 5}};\n\
         .const .align 4 .f32 pi[2][2] = {{{{0f40490FDB}}, {{1.5, -2.0}}}};\n.extern .shared .align 16 .b8 buffer[];\n\
         .visible .entry k() {{ .shared .align 4 .b32 own[8]; ret; }}\n\
         .weak .entry j() {{ .shared .align 4 .b32 own[4]; ret; }}\n",
        masked = masked.join(", "),
    );
    let ir = lifted(&text).ir;
    for part in [
        "<{ i8, i8, i8, i8, i64, i8, [7 x i8] }> <{ i8 1, i8 0, i8 0, i8 0, i64 ptrtoint (ptr addrspacecast",
        "@\"n\" = addrspace(1) externally_initialized global [1 x i32] [i32 7], align 4",
        "i64 ptrtoint (ptr addrspace(1) @\"n\" to i64)",
        "ptrtoint (ptr getelementptr (i8, ptr addrspacecast (ptr addrspace(1) @\"n\" to ptr), i64 4) to i64)",
        "@\"buffer\" = external addrspace(3) externally_initialized global [0 x i8], align 16",
        "@\"own\" = internal addrspace(3) externally_initialized global [8 x i32] undef",
        "@\"own$1\" = internal addrspace(3) externally_initialized global [4 x i32] undef",
        "define weak_odr void @\"j\"()",
    ] {
        assert!(ir.contains(part), "{part}\n{ir}");
    }
}

#[test]
fn functions_are_called_through_names_and_pointers() {
    let text = format!(
        "{HEADER}.func (.param .b32 r) twice(.param .b32 x);\n\
         .visible .entry k(.param .u64 out) {{ .reg .b32 %r<4>; .reg .b64 %rd<4>;\n\
         {{ .param .b32 a; .param .b32 b; st.param.b32 [a], 21; call.uni (b), twice, (a); ld.param.b32 %r1, [b]; }}\n\
         mov.u64 %rd1, twice;\n\
         {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), %rd1, (a), shape;\n\
         ld.param.b32 %r2, [b]; }}\n\
         shape: .callprototype (.param .b32 _) _ (.param .b32 _);\n\
         ld.param.u64 %rd2, [out]; st.global.u32 [%rd2], %r2; ret; }}\n\
         .func (.param .b32 r) twice(.param .b32 x) {{ .reg .b32 %r<4>; ld.param.u32 %r1, [x]; add.s32 %r2, %r1, %r1;\n\
         st.param.b32 [r], %r2; ret; }}\n"
    );
    // The prototype is declared after its use.
    let early = text.replace(" shape: .callprototype (.param .b32 _) _ (.param .b32 _);\n", "").replace(
        "mov.u64 %rd1, twice;",
        "mov.u64 %rd1, twice; shape: .callprototype (.param .b32 _) _ (.param .b32 _);",
    );
    let ir = verify(&lifted(&early).ir, "default<O3>");
    assert!(ir.contains("store i32 84"), "{ir}");
}

#[test]
fn branches_through_tables_and_nested_blocks() {
    let text = kernel(
        ".param .u64 out, .param .u32 n",
        "ld.param.u32 %r1, [n]; ld.param.u64 %rd1, [out]; mov.u32 %r2, 5; ts: .branchtargets L0, L1;\n\
         setp.gt.u32 %p1, %r1, 1; @%p1 bra L2; brx.idx %r1, ts;\n\
         L0: { .reg .b32 %r2; mov.u32 %r2, 9; bra L2; }\nL1: mov.u32 %r2, 7;\nL2: st.global.u32 [%rd1], %r2;",
    );
    let ir = verify(&lifted(&text).ir, "default<O3>");
    assert!(ir.contains("i32 7") && ir.contains("i32 5") && !ir.contains("i32 9"), "{ir}");
}

#[test]
fn what_llvm_lacks_stays_the_same_instruction() {
    let text = kernel(
        ".param .u64 out",
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, 1;\n\
         mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f1,%f2,%f3,%f4};\n\
         @%p1 cp.async.ca.shared.global [%r1], [%rd1+8], 16;\n\
         @!%p1 mad.lo.sat.s32 %r2, %r1, %r1, 3;",
    );
    let text = text.replace("mad.lo.sat", "mad.hi.sat");
    let found = lifted(&text);
    for part in [
        "asm \"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};\", \"=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r\"",
        "asm sideeffect \"@$0 cp.async.ca.shared.global [$1], [$2+8], 16;\", \"b,r,l,~{memory}\"",
        "asm \"@!$2 mad.hi.sat.s32 $0, $3, $4, 3;\", \"=r,0,b,r,r\"",
    ] {
        assert!(found.ir.contains(part), "{part}\n{}", found.ir);
    }
    assert_eq!(found.statistics.in_assembly(), 3);
}

#[test]
fn only_plain_sums_and_products_may_be_fused() {
    let text = kernel(
        ".param .u64 out",
        "mul.f32 %f1, %f2, %f3; add.f32 %f1, %f1, %f2; mul.rn.f32 %f4, %f2, %f3; add.rn.f32 %f4, %f4, %f1; st.global.f32 [%rd1], %f4;",
    );
    let ir = lifted(&text).ir;
    assert!(ir.contains("fmul contract float") && ir.contains("fadd contract float"), "{ir}");
    assert!(ir.contains("= fmul float") && ir.contains("= fadd float"), "{ir}");
}

#[test]
fn instructions_flush_one_by_one_and_halves_never_do() {
    let text = kernel(
        ".param .u64 out",
        ".reg .b16 %h<4>; ld.param.u64 %rd1, [out]; ld.global.f32 %f2, [%rd1]; ld.global.b16 %h1, [%rd1+4];\n\
         mul.rn.ftz.f32 %f1, %f2, 0f3F800000; add.ftz.f32 %f1, %f1, 0f80000000; fma.rn.ftz.f32 %f3, %f1, %f2, %f1;\n\
         max.ftz.f32 %f3, %f3, %f2; setp.gt.ftz.f32 %p1, %f3, %f1; cvt.ftz.f64.f32 %rd2, %f3; mul.f32 %f4, %f3, %f3;\n\
         cvt.rn.ftz.f32.f64 %f5, %rd2; add.rn.f16 %h2, %h1, %h1; setp.lt.f16 %p2, %h2, %h1; @%p1 mov.f32 %f5, %f4;\n\
         @%p2 mov.f32 %f5, %f2; st.global.f32 [%rd1], %f5; st.global.b16 [%rd1+4], %h2;",
    )
    .replace(".reg .b64 %rd<9>;", ".reg .b64 %rd<9>; .reg .f64 %fd<3>;")
    .replace("cvt.ftz.f64.f32 %rd2", "cvt.ftz.f64.f32 %fd2")
    .replace("f32.f64 %f5, %rd2", "f32.f64 %f5, %fd2");
    let ptx = assembly(&lifted(&text).ir, "default<O3>");
    for part in [
        "mul.rn.ftz.f32", "add.ftz.f32", "fma.rn.ftz.f32", "max.ftz.f32", "setp.gt.ftz.f32", "cvt.ftz.f64.f32",
        "cvt.rn.ftz.f32.f64", "mul.f32", "add.f16", "setp.lt.f16",
    ] {
        assert!(ptx.replace("mul.rn.f32", "mul.f32").replace("add.rn.f16", "add.f16").contains(part), "{part}\n{ptx}");
    }
}

/// The PTX that LLVM writes for the assembler.
fn assembly(ir: &str, pipeline: &str) -> String {
    let context = Context::create();
    let text = verify(ir, pipeline);
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).unwrap();
    let ptx = nvptx().write_to_memory_buffer(&module, inkwell::targets::FileType::Assembly).unwrap();
    String::from_utf8_lossy(ptx.as_slice()).into_owned()
}

/// The words at a kernel's only parameter, `out`, after it ran.
fn run<const N: usize>(text: &str, pipeline: &str, mut words: [u32; N]) -> [u32; N] {
    let parameters = Parameters::default().pointer(words.as_mut_ptr());
    Object::link(&object(&lifted(text).ir, pipeline)).launch("k", 1, 1, parameters.get());
    words
}

#[test]
fn a_base_of_addresses_is_proved() {
    let first = |body: &str| {
        let text = kernel(
            ".param .u64 a, .param .u64 b",
            &format!("ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x;\n{body}"),
        );
        let ir = verify(&lifted(&text).ir, "default<O3>");
        let start = ir.find("@k(").unwrap();
        ir[start + 3..].split(',').next().unwrap().replace(" readnone", "").to_owned()
    };
    // Addresses in a cluster's shared memory, and addresses read from memory, are not offsets.
    for body in [
        ".shared .b32 s; mov.u32 %r2, s; mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd4, %rd3, %r1;\n\
         add.s64 %rd5, %rd4, %rd1; st.u32 [%rd5], %r1;",
        ".shared .b32 s; mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3; and.b64 %rd4, %rd3, -16;\n\
         add.s64 %rd5, %rd1, %rd4; st.u32 [%rd5], %r1;",
        "ld.global.u64 %rd3, [%rd2]; add.s64 %rd5, %rd1, %rd3; st.u32 [%rd5], %r1;",
        "ld.global.u64 %rd3, [%rd2]; mul.lo.s64 %rd4, %rd3, 2; add.s64 %rd5, %rd1, %rd4; st.u32 [%rd5], %r1;",
        ".shared .b32 s; mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; add.s64 %rd5, %rd4, %rd1; st.u32 [%rd5], %r1;",
        // The other parameter is the pointer, which is aligned.
        "and.b64 %rd3, %rd2, -16; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;",
        "and.b64 %rd3, %rd2, -16; add.s64 %rd4, %rd1, %rd3; cvta.to.global.u64 %rd5, %rd4; st.global.u32 [%rd5], %r1;",
        ".shared .b32 s; mov.u32 %r2, s; mul.wide.u32 %rd3, %r2, 1; add.s64 %rd4, %rd1, %rd3;\n\
         cvta.shared.u64 %rd5, %rd4; st.u32 [%rd5], %r1;",
    ] {
        assert!(first(body).starts_with("i64"), "{}\n{body}", first(body));
    }
    for body in [
        "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; st.u32 [%rd4], %r1;",
        "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd3, %rd1; add.s64 %rd4, %rd4, 8; st.global.u32 [%rd4], %r1;",
        "mul.lo.s64 %rd3, %rd2, 4; add.s64 %rd4, %rd1, %rd3; cvta.to.global.u64 %rd5, %rd4; st.global.u32 [%rd5], %r1;",
        "cvta.to.global.u64 %rd3, %rd1; shl.b64 %rd4, %rd2, 2; add.s64 %rd5, %rd3, %rd4; st.global.u32 [%rd5], %r1;",
        "mad.wide.u32 %rd3, %r1, 4, %rd1; st.u32 [%rd3], %r1;",
        "cvt.u64.u32 %rd3, %r1; and.b64 %rd4, %rd3, 31; add.s64 %rd5, %rd1, %rd4; st.global.u8 [%rd5], %r1;",
    ] {
        assert!(first(body).starts_with("ptr"), "{}\n{body}", first(body));
    }
}

#[test]
fn what_an_address_and_the_distance_to_another_come_to_is_the_others() {
    let text = kernel(
        ".param .u64 out",
        ".shared .align 4 .b32 a[4]; .shared .align 4 .b32 b[4]; ld.param.u64 %rd1, [out];\n\
         mov.u64 %rd2, a; mov.u64 %rd3, b; st.shared.u32 [%rd3+4], 1; sub.s64 %rd4, %rd3, %rd2;\n\
         add.s64 %rd5, %rd2, %rd4; st.shared.u32 [%rd5+4], 2; ld.shared.u32 %r1, [%rd3+4]; st.global.u32 [%rd1], %r1;",
    );
    assert_eq!(run(&text, "default<O3>", [0]), [2]);
}

/// A register that no longer holds an address keeps its value, whatever it held before.
#[test]
fn registers_of_shared_addresses_may_hold_numbers() {
    let text = kernel(
        ".param .u64 out",
        ".shared .align 8 .b64 s[4]; ld.param.u64 %rd1, [out]; mov.u64 %rd2, s; st.shared.u64 [%rd2+8], 70;\n\
         mov.u64 %rd2, 5; mul.lo.u64 %rd2, %rd2, 3; cvt.u32.u64 %r1, %rd2; st.global.u32 [%rd1], %r1;\n\
         mov.u64 %rd3, s; add.u64 %rd3, %rd3, 8; ld.shared.u64 %rd3, [%rd3];\n\
         cvt.u32.u64 %r2, %rd3; st.global.u32 [%rd1+4], %r2;\n\
         mov.u64 %rd4, s; ld.shared.u64 %rd5, [%rd4+8]; sub.u64 %rd4, %rd4, %rd4; add.u64 %rd4, %rd4, 1;\n\
         mov.u64 %rd6, %rd4; st.global.u64 [%rd1+8], %rd6;",
    );
    for pipeline in ["", "default<O1>", "default<O3>"] {
        assert_eq!(run(&text, pipeline, [9; 4]), [15, 70, 1, 0], "{pipeline}");
    }
}

#[test]
fn arrays_of_shared_memory_without_a_size_are_one() {
    let text = format!(
        "{HEADER}.extern .shared .align 4 .b8 a[];\n.extern .shared .align 16 .f32 b[];\n\
         .visible .entry k(.param .u64 out) {{ .reg .b32 %r<4>; .reg .b64 %rd<4>; .extern .shared .align 8 .b64 c[];\n\
         ld.param.u64 %rd1, [out]; st.shared.u32 [a+4], 1; st.shared.u32 [b+4], 2; ld.shared.u32 %r1, [a+4];\n\
         st.shared.u32 [c+4], 3; ld.shared.u32 %r2, [b+4]; st.global.v2.u32 [%rd1], {{%r1, %r2}}; ret; }}\n"
    );
    assert!(
        lifted(&text).ir.contains("@\"a\" = external addrspace(3) externally_initialized global [0 x i8], align 16")
    );
    assert_eq!(run(&text, "default<O3>", [0, 0]), [2, 3]);
}

#[test]
fn signs_fill_registers_of_every_type() {
    let text = kernel(
        ".param .u64 out",
        ".reg .b32 %x<4>; ld.param.u64 %rd1, [out]; ld.global.s8 %x1, [%rd1]; add.f32 %f1, %x1, %x1; add.f32 %f2, %x1, %f1;\n\
         ld.global.s16 %rd2, [%rd1]; st.global.u64 [%rd1+8], %rd2; mov.u64 %rd3, %rd1; setp.eq.u64 %p1, %rd3, 0;\n\
         @%p1 ld.global.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd1]; cvt.s64.s32 %rd4, %r2; @%p1 ld.global.u32 %r1, [%rd4];\n\
         st.global.u64 [%rd1+16], %rd4; st.global.b32 [%rd1], %x1; @%p1 st.global.f32 [%rd1], %f2; @%p1 st.global.f32 [%rd1], %r1;",
    );
    let found = run(&text, "", [0xffff_fffe, 0, 0, 0, 0, 0]);
    assert_eq!(found, [u32::MAX - 1, 0, u32::MAX - 1, u32::MAX, u32::MAX - 1, u32::MAX]);
}

#[test]
fn what_stands_behind_a_location_counts() {
    let text = kernel(
        ".param .u64 out",
        ".loc 1 20 5 ld.param.u64 %rd1, [out]; .file 2 \"b.cu\", 12, 34 mov.u32 %r1, 1;\n\
         .loc 1 20 5, function_name $name+3, inlined_at 1 45 3 st.global.u32 [%rd1], %r1; .loc 2 1 1 // st",
    );
    assert_eq!(run(&text, "", [0]), [1]);
    assert_eq!(run(&text.replace(".visible .entry", ".file 1 \"a.cu\" .visible .entry"), "", [0]), [1]);
}

/// The debug locations of instructions with this beginning: file, line, column and function, from the inside out.
fn places(ir: &str, start: &str) -> Vec<String> {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(ir.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).unwrap_or_else(|error| panic!("{error}\n{ir}"));
    let blocks = module.get_functions().flat_map(|function| function.get_basic_block_iter());
    let instructions = blocks.flat_map(|block| block.get_instructions());
    let own = instructions.filter(|it| it.to_string().contains(start));
    own.map(|it| crate::llvm::location(it.as_value_ref()).unwrap_or_default()).collect()
}

#[test]
fn instructions_come_from_the_lines_that_locations_say() {
    let text = kernel(
        ".param .u64 out",
        "ld.param.u64 %rd1, [out];\n.loc 1 20 5\nst.global.u32 [%rd1], 1;\n\
         .loc 2 7 70000, function_name $L__info_string0+2, inlined_at 1 20 5\nst.global.u32 [%rd1], 2;\n\
         .loc 2 9 3, function_name $inner, inlined_at 2 7 70000\nst.global.u32 [%rd1], 3;\n\
         .loc 2 30 1\nst.global.u32 [%rd1], 4; .loc 9 1 1\nst.global.u32 [%rd1], 5;",
    );
    let section = ".file 1 \"/a \\b\" \"k.cu\"\n.file 2 \"/h.cuh\"\n\
                   .section .debug_str {\n$L__info_string0:\n.b8 49,50,104,101,108,112\n.b8 101,114,0\n$inner: .b8 105,0\n}\n";
    let lifted = lifted(&(text + section));
    let outer = "/a \\b/k.cu\t20\t5\tk";
    let helper = format!("/h.cuh\t7\t0\thelper\n{outer}");
    let wanted = [outer.to_owned(), helper.clone(), format!("/h.cuh\t9\t3\ti\n{helper}"), "/h.cuh\t30\t1\tk".into()];
    let found = places(&lifted.ir, "store i32");
    assert_eq!(found[..4], wanted);
    // An undeclared file gives no location.
    assert!(found[4].ends_with("\t0\t0\tk"), "{found:?}");
    // LLVM reads and writes the locations, for GPUs and for the CPU device.
    assert!(assembly(&lifted.ir, "default<O3>").contains(".loc"));
    object(&lifted.ir, "default<O3>");
    let without = kernel(".param .u64 out", "ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], 1;");
    assert!(!lift(&without).unwrap().ir.contains("!dbg"));
}

#[test]
fn inlined_code_may_call_itself_without_end() {
    let locations = ".loc 1 1 1, function_name $name, inlined_at 1 1 1\nst.global.u32 [%rd1], 1;\n".repeat(500);
    let body = format!("ld.param.u64 %rd1, [out];\n{locations}");
    let text = format!("{}.file 1 \"a.cu\"\n", kernel(".param .u64 out", &body));
    let found = places(&lifted(&text).ir, "store i32");
    assert_eq!(found.len(), 500);
    assert!(found.iter().map(|place| place.lines().count()).max() <= Some(70));
}

#[test]
fn functions_with_lines_call_each_other() {
    let text = format!(
        "{HEADER}.file 1 \"a.cu\"\n.func (.param .b32 out) f(.param .b32 in) {{ .reg .b32 %r<3>;\n.loc 1 3 1\n\
         ld.param.u32 %r1, [in]; add.u32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }}\n\
         .visible .entry k(.param .u64 p) {{ .reg .b32 %r<3>; .reg .b64 %rd<2>; .param .b32 a; .param .b32 b;\n\
         ld.param.u64 %rd1, [p]; st.param.b32 [a], 41; call (b), f, (a); ld.param.b32 %r1, [b];\n.loc 1 8 2\n\
         st.global.u32 [%rd1], %r1; ret; }}\n"
    );
    for pipeline in ["", "default<O3>"] {
        assert_eq!(run(&text, pipeline, [0]), [42]);
    }
}

#[test]
fn memory_of_the_frame_begins_with_some_value() {
    let text = kernel(
        ".param .u64 out",
        ".local .align 4 .b8 f[64]; ld.param.u64 %rd1, [out]; ld.local.u32 %r1, [f+8]; and.b32 %r2, %r1, 1;\n\
         xor.b32 %r3, %r1, %r2; and.b32 %r3, %r3, 1; add.u32 %r3, %r3, 7; st.global.u32 [%rd1], %r3; st.global.u32 [%rd1+4], %r1;",
    );
    let ir = verify(&lifted(&text).ir, "default<O3>");
    assert!(!ir.contains("undef") && !ir.contains("poison") && !ir.contains("memset"), "{ir}");
    let [first, second] = run(&text, "default<O3>", [1, 1]);
    assert_eq!((first, second), (7, 0));
}

/// Triton addresses the tables of a reduction's parts like this: a loop over words, with positions after and before
/// others.
#[test]
fn addresses_of_the_frame_of_32_bits_are_whole_ones() {
    let text = kernel(
        ".param .u64 out",
        ".local .align 4 .b8 f[28]; ld.param.u64 %rd1, [out]; mov.b64 %rd2, f; add.u64 %rd3, %rd2, 0;\n\
         cvt.u32.u64 %r1, %rd3; mov.b32 %r2, %r1; mov.b32 %r3, 0;\n\
         again: st.local.b32 [%r2], %r3; add.s32 %r2, %r2, 4; add.s32 %r3, %r3, 11; setp.lt.s32 %p1, %r3, 77;\n\
         @%p1 bra again;\n\
         ld.global.u32 %r4, [%rd1]; shl.b32 %r4, %r4, 2; sub.s32 %r5, %r1, %r4; add.s32 %r5, 8, %r5;\n\
         @!%p1 mov.u32 %r6, %r1; ld.local.b32 %r7, [%r5+16]; ld.local.b32 %r8, [%r6+4]; st.global.u32 [%rd1], %r7;\n\
         st.global.u32 [%rd1+4], %r8;",
    );
    let ir = lifted(&text).ir;
    assert!(!ir.contains("ptrtoint") && !ir.contains("inttoptr") && !ir.contains(" asm "), "{ir}");
    for pipeline in ["", "default<O1>", "default<O3>"] {
        assert_eq!(run(&text, pipeline, [2, 0]), [44, 11], "{pipeline}");
    }
    // Other uses of such a word prevent that it is treated as an address.
    for more in
        ["xor.b32 %r1, %r1, 4;", "setp.eq.u32 %p1, %r1, 0;", "st.local.b32 [%r1], %r1;", "mul.lo.u32 %r3, %r1, 3;"]
    {
        let text = kernel(
            "",
            &format!(
                ".local .align 4 .b8 f[28]; mov.b64 %rd2, f; cvt.u32.u64 %r1, %rd2; {more} ld.local.b32 %r2, [%r1];"
            ),
        );
        assert!(refused(&text).contains("32 bits of a local address"), "{more}");
    }
}

#[test]
fn numbers_that_are_aligned_further_lie_where_they_do() {
    let text = kernel(
        ".param .u32 a, .param .align 16 .u32 b",
        "ld.param.u32 %r1, [b]; ld.param.u32 %r2, [a]; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r1;",
    );
    let ir = lifted(&text).ir;
    assert!(ir.contains("@\"k\"(i32 %P0, ptr byval(<{ [4 x i8] }>) align 16 %P1)"), "{ir}");
}

#[test]
fn long_programs_are_lifted_in_time() {
    // Work that grows with the square of the length takes minutes, also on a busy machine.
    let clock = |what: &str, text: &str| {
        let start = std::time::Instant::now();
        let outcome = lift(text);
        let taken = start.elapsed().as_millis();
        eprintln!("{what}: {taken} ms for {} KiB, {}", text.len() / 1024, outcome.is_ok());
        assert!(taken < 30_000, "{what}: {taken} ms");
        outcome
    };
    let mut random = Random(3);
    let body = Program::random(&mut random, 10_000).text();
    let plain = format!("{HEADER}.visible .entry k(.param .u64 in, .param .u64 out) {{\n{body}}}\n");
    clock("10,000 instructions", &plain).unwrap();
    // Many branches to each of many labels.
    let labels = (0..3000).map(|number| format!("L{number}")).collect::<Vec<_>>();
    let branches: String = labels.iter().map(|label| format!("{label}: brx.idx %r1, ts;\n")).collect();
    let table = kernel("", &format!("ts: .branchtargets {};\n{branches}", labels.join(", ")));
    assert!(clock("branches through lists", &table).unwrap_err().what.contains("brx.idx"));
    // Loops that overlap without a pattern.
    let ladder: String = (0..20_000)
        .map(|number| {
            format!(
                "A{number}: @%p1 bra B{}; add.u32 %r{}, %r1, 1;\nB{number}: @%p2 bra A{};\n",
                19_999 - number,
                number % 9,
                (number * 7919) % 20_000
            )
        })
        .collect();
    clock("a tangle of branches", &kernel("", &ladder)).unwrap();
    let chain: String = (0..50_000).map(|number| format!("@%p1 bra E; add.u32 %q{number}, %q0, 1;\n")).collect();
    let reads: String = (0..50_000).map(|number| format!("add.u32 %r1, %r1, %q{number};\n")).collect();
    clock("a long chain", &kernel("", &format!(".reg .b32 %q<50000>; {chain}{reads}E:"))).unwrap();
    let digits = format!("%r{}", "1".repeat(20_000));
    let names = (0..100).map(|_| format!("add.u32 {digits}, {digits}, 1;\n")).collect::<String>();
    clock("names of digits", &kernel("", &format!(".reg .b32 {digits}; {names}"))).unwrap();
    let params = (0..2000).map(|number| format!(".param .align 8 .b8 p{number}[8]")).collect::<Vec<_>>().join(", ");
    let loads: String = (0..20_000).map(|number| format!("ld.param.u64 %rd1, [p{}];\n", number % 2000)).collect();
    clock("many parameters", &kernel(&params, &loads)).unwrap();
    let functions: String =
        (0..5000).map(|number| format!(".func f{number}() {{ .shared .b32 own; ret; }}\n")).collect();
    clock("equal names", &format!("{HEADER}{functions}")).unwrap();
}

#[test]
fn the_assembler_gets_the_newer_version_and_the_original_target() {
    let text =
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() .reqnctapercluster 2, 1, 1 { ret; }\n";
    let lifted = lift(text).unwrap();
    let emitted = ".version 8.5\n.target sm_90a\n.address_size 64\n\n.visible .entry k(\n\n)\n{\n\tret;\n}\n";
    let finished = lifted.finish(emitted);
    assert_eq!(
        finished,
        ".version 9.0\n.target sm_100a\n.address_size 64\n\n.visible .entry k(\n\n)\n.reqnctapercluster 2, 1, 1\n{\n\tret;\n}\n"
    );
    assert_eq!((lifted.device("sm_100").as_str(), lifted.device("sm_90").as_str()), ("sm_100a", "sm_90"));
}

#[test]
fn copysign_keeps_bits_under_every_pipeline() {
    let body = "ld.param.f64 %d1, [a]; ld.param.f64 %d2, [b]; ld.param.u64 %rd1, [out];\n\
                copysign.f64 %d3, %d1, %d2; st.global.f64 [%rd1], %d3;";
    let text = kernel(".param .f64 a, .param .f64 b, .param .u64 out", &format!(".reg .f64 %d<4>; {body}"));
    for pipeline in ["", "default<O1>", "default<O3>"] {
        let ir = verify(&lifted(&text).ir, pipeline);
        // A GPU's `abs.f64`, which stands for these, changes NaNs.
        assert!(!ir.contains("llvm.fabs") && !ir.contains("llvm.copysign"), "{ir}");
    }
}

#[test]
fn what_is_refused_is_named() {
    for (text, part) in [
        (kernel("", "frobnicate }"), "an operand is missing"),
        (kernel("", "mov.u32 %r1, %q1x;"), "%q1x is not declared"),
        (format!("{HEADER}.global .texref t;\n"), "textures by name"),
        (kernel("", "alloca.u64 %rd1, %rd2, 16;"), "alloca.u64"),
        (kernel("", "ld.local.u32 %r1, [%r2];"), "ld.local.u32"),
        ("no PTX at all".to_owned(), "line 1"),
        (format!("{HEADER}.visible .entry k() {{ bra L; }}"), "L is not declared"),
        (kernel("", "L: bra L; L: exit;"), "line 6: the label L twice"),
        (
            kernel("", ".local .b32 f; mov.u32 %r1, f; cvt.u64.u32 %rd1, %r1; ld.local.u32 %r2, [%rd1];"),
            "32 bits of a local",
        ),
        (
            kernel(
                "",
                ".local .b32 f; mov.u64 %rd1, f; cvt.u32.u64 %r1, %rd1; add.u32 %r1, %r1, 4; cvt.u64.u32 %rd2, %r1;\n\
             cvta.local.u64 %rd3, %rd2;",
            ),
            "line 7: 32 bits of a local address (instruction cvta.local.u64)",
        ),
        (kernel("", "vadd.u32.u32.u32 %r1, %r2.b0, %r3.h1, %r1;"), "line 6: a part of a register, %r2.b0"),
        (format!("{HEADER}.global .b32 a[4];\n{}", &kernel("", "ld.global.b32 %r1, a[1];")[HEADER.len()..]), "a[…]"),
        (kernel("", "add.u32 %r1, %r2, ];"), "instruction add.u32"),
        (kernel("", "ts: .branchtargets L<4>; brx.idx %r1, ts;"), "parameterised labels"),
        (kernel("", "ts: .calltargets f;"), "line 6: f is not declared"),
        (format!("{HEADER}.global .b32 a[2] = {{1, 2, 3}};\n"), "line 4: a has more values"),
        (
            format!("{HEADER}\n.func (.reg .b32 a, .reg .b32 b) f() {{ ret; }}\n"),
            "line 5: a function that returns several",
        ),
        (HEADER.replace("64\n", "32\n"), "addresses of 32 bits"),
        (format!("{HEADER}.global .u32 n;\n.global .b8 p[4] = {{0xff(n), 0xff00(n)}};\n"), "a part of an address"),
        (format!("{HEADER}.alias a, b;\n"), "line 4: b is not declared"),
    ] {
        let found = refused(&text);
        assert!(found.contains(part), "{found}\n{text}");
    }
}

#[test]
fn a_program_does_without_the_kernels_that_cannot_be_lifted() {
    let text = format!(
        "{HEADER}.const .align 4 .u32 c = 1;\n.global .align 4 .u32 g;\n\
         .visible .entry good() {{ .reg .b32 %r<2>; ld.const.u32 %r1, [c]; st.global.u32 [g], %r1; ret; }}\n\
         .visible .entry bad() {{ .reg .b64 %rd<2>; stacksave.u64 %rd1; ret; }}\n"
    );
    let (lifted, refused) = lift_program(&text).unwrap();
    assert!(lifted.ir.contains("@\"good\"") && !lifted.ir.contains("@\"bad\""), "{}", lifted.ir);
    assert!(lifted.ir.contains("@\"c\" = addrspace(4)") && !lifted.ir.contains("internal"), "{}", lifted.ir);
    let [row] = &refused[..] else { panic!("{refused:?}") };
    assert!(row.0 == "bad" && row.1.what.contains("stacksave.u64"), "{row:?}");
    lift_program(&format!("{HEADER}.global .texref t;\n")).expect_err("no kernel is at fault");
}

/// Words of PTX, which the test combines in any order.
const WORDS: &[&str] = &[
    ".version", "8.3", ".target", "sm_90", ".address_size", "64", ".visible", ".entry", ".func", "k", "(", ")", "{",
    "}", "[", "]", ";", ",", ":", ".param", ".reg", ".b32", ".u64", ".f32", ".pred", "%r", "<", ">", "10", "%r1",
    "%p1", "@", "!", "|", "add.s32", "mov.u32", "ld.global.u32", "st.global.u32", "bra", "L", "ret", "call",
    "0f3F800000", "-", "+", "~", "?", "0x", "1e", "1e+", "=", "generic", ".global", ".shared", ".align", "16",
    ".branchtargets", "brx.idx", ".callprototype", "_", "setp.lt.s32", "/*", "*/", "//", "\n", "\"", ".v2", ".section",
    "((((", "18446744073709551615",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_is_too_much(words in proptest::collection::vec(0..WORDS.len(), 0..200)) {
        let text = words.into_iter().map(|word| WORDS[word]).collect::<Vec<_>>().join(" ");
        let _ = lift(&text);
        let _ = lift(&format!("{HEADER}{text}"));
        let _ = lift(&kernel("", &text));
    }

    #[test]
    fn no_bytes_are_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = lift(&text);
        let _ = lift(&kernel("", &text));
    }

    #[test]
    fn programs_that_are_damaged_are_read_or_refused(
        seed in any::<u64>(),
        changes in proptest::collection::vec((any::<usize>(), 0..WORDS.len()), 1..8),
    ) {
        let program = Program::random(&mut Random(seed), 12).text();
        let mut text = format!("{HEADER}.visible .entry k(.param .u64 in, .param .u64 out) {{\n{program}}}\n");
        for (at, word) in changes {
            let at = at % text.len();
            text.replace_range(at..=at, WORDS[word]);
        }
        if let Ok(lifted) = lift(&text) {
            // LLVM may accept or reject the result, but must not end the process.
            let context = Context::create();
            let buffer = MemoryBuffer::create_from_memory_range_copy(lifted.ir.as_bytes(), "test");
            let _ = context.create_module_from_ir(buffer);
        }
    }
}

#[test]
fn nesting_and_sizes_are_bounded() {
    let deep = "(".repeat(100_000);
    refused(&kernel("", &format!("mov.u32 %r1, {deep}")));
    refused(&kernel("", &format!("mov.u32 %r1, {}1;", "-".repeat(100_000))));
    refused(&kernel("", &"{".repeat(100_000)));
    refused(&format!("{HEADER}.global .b8 a = {}", "{".repeat(100_000)));
    refused(&format!("{HEADER}.global .b64 a[4000000000][4000000000];"));
    // Such an array is never written out.
    let large = lift(&format!("{HEADER}.global .b8 a[1000000000] = {{1}};")).unwrap();
    assert!(large.ir.len() < 2000);
    lift(&kernel("", ".reg .b32 %many<4000000000>; mov.u32 %many3999999999, 1;")).unwrap();
}

#[test]
fn constant_expressions_have_the_values_that_the_assembler_gives_them() {
    const CASES: [(&str, i64); 38] = [
        ("1 << 63", i64::MIN),
        ("1 << 64", 1),
        ("1 << 65", 2),
        ("1 << -1", i64::MIN),
        ("-8 >> 1", -4),
        ("-8 >> 64", -8),
        ("-8 >> 1U", -4),
        ("-8U >> 1", 0x7fff_ffff_ffff_fffc),
        ("0xFFFFFFFFFFFFFFFF >> 4", 0x0fff_ffff_ffff_ffff),
        ("-1 < 1", 1),
        ("-1 < 1U", 0),
        ("-1 > 1U", 1),
        ("-1 / 2", 0),
        ("-1 / 2U", i64::MAX),
        ("-7 % 3", 0),
        ("(-7 % 3) < 0", 0),
        ("(7U - 8) / 2", i64::MAX),
        ("~0 / 2", i64::MAX),
        ("~0 >> 1", i64::MAX),
        ("-1 == 0xFFFFFFFFFFFFFFFF", 1),
        ("(-1 & 1U) - 2 < 0", 0),
        ("(-1 & -1) / 2", 0),
        ("(1 ? -1 : 1U) / 2", 0),
        ("(1 ? -2 : 1) / 2", -1),
        ("(1U < 2U) - 2 < 0", 1),
        ("(1 << 1U) - 3 < 0", 1),
        ("(1U << 1) - 3 < 0", 0),
        ("(.s64) 0xFFFFFFFFFFFFFFFF / 2", 0),
        ("(.u64) -1 / 2", i64::MAX),
        ("9223372036854775807 + 1", i64::MIN),
        ("-9223372036854775808 / -1", 0),
        ("-9223372036854775808 % -1", i64::MIN),
        ("-5U / 2", 9_223_372_036_854_775_805),
        ("WARP_SZ - 33 < 0", 1),
        ("1.5 < 2.0", 1),
        ("010 + 0b101 + 0xFU", 28),
        ("7% 3", 1),
        ("7%(3)", 1),
    ];
    let list = CASES.map(|(text, _)| text).join(", ");
    let ir = lifted(&format!("{HEADER}.visible .global .align 8 .u64 x[] = {{{list}}};\n")).ir;
    let wanted = CASES.map(|(_, value)| format!("i64 {}", value as u64)).join(", ");
    assert!(ir.contains(&wanted), "{wanted}\n{ir}");
    let ir = lifted(&format!("{HEADER}.global .align 8 .f64 x[2] = {{3.0 / 2.0, -(1.5 * 2.0 - 1.0)}};\n")).ir;
    assert!(ir.contains("[double 0x3FF8000000000000, double 0xC000000000000000]"), "{ir}");
    let text = kernel("", "ld.global.u32 %r1, [%rd1+2*4-4]; st.global.u32 [%rd1+-8], %r1;");
    let ir = lifted(&text).ir;
    assert!(ir.contains("i64 4") && ir.contains("i64 -8"), "{ir}");
    assert!(lifted(&kernel("", "mov.u32 %r1, WARP_SZ-1; st.shared.u32 [%r1], %r1;")).ir.contains("i32 31"));
    // The assembler accepts a name in the last one, too.
    for text in ["1.5 + 1", "5 / 0", "~1.5", "1 ? 2.5 : 3.5", "7%3"] {
        refused(&format!("{HEADER}.global .align 8 .f64 x = {text};\n"));
    }
}
