//! Tests of the inserted instrumentation.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use mneme_builds::instrument::layout;
use mneme_model::observation::{Access, Fault};

use super::*;
use crate::architecture::CodegenArchitecture;

const HEAD: &str = r#"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
%Pair = type { i8, i32 }
@shared = internal addrspace(3) global [64 x i32] undef, align 4
@dynamic = external addrspace(3) global [0 x float], align 4
@table = internal addrspace(4) global [4 x i32] [i32 1, i32 2, i32 3, i32 4], align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.bar.warp.sync(i32)
declare void @llvm.nvvm.membar.cta()
declare i32 @llvm.nvvm.ldg.global.i.i32.p1(ptr addrspace(1), i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.lifetime.start.p0(i64, ptr)
!nvvm.annotations = !{!0}
!0 = !{ptr @kernel, !"kernel", i32 1}
!9 = !{}
"#;

const AMD_HEAD: &str = r#"
target datalayout = "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"
%Pair = type { i8, i32 }
@shared = internal addrspace(3) global [64 x i32] undef, align 4
@dynamic = external addrspace(3) global [0 x float], align 4
@table = internal addrspace(4) constant [4 x i32] [i32 1, i32 2, i32 3, i32 4], align 4
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.amdgcn.wave.barrier()
declare void @llvm.amdgcn.s.sleep(i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.raw.ptr.buffer.load.i32(ptr addrspace(8), i32, i32, i32)
declare void @llvm.memcpy.p0.p4.i64(ptr, ptr addrspace(4), i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.lifetime.start.p5(i64, ptr addrspace(5))
"#;
/// The tested AMD targets: waves of 64 lanes, and of 32.
const AMD: [&str; 2] = ["gfx90a", "gfx1030"];

/// The instrumented kernel before Mneme's functions are linked, the report on it, and the complete text for a GPU.
/// `passes` run in between.
fn instrumented_for(
    arch: &str,
    instrument: Instrument,
    signature: &str,
    body: &str,
    passes: &str,
) -> (String, Instrumented, String) {
    let context = Context::create();
    let is_amd = arch.starts_with("gfx");
    let (head, define, attributes) = if is_amd {
        let features = format!("attributes #0 = {{ \"target-cpu\"=\"{arch}\" \"amdgpu-no-dispatch-ptr\" }}\n");
        (AMD_HEAD, "define amdgpu_kernel void", features)
    } else {
        (HEAD, "define void", "attributes #0 = { nounwind }\n".to_owned())
    };
    let text = format!("{head}\n{define} @kernel({signature}) #0 {{\n{body}\n}}\n{attributes}");
    let module =
        context.create_module_from_ir(MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test")).unwrap();
    let architecture = CodegenArchitecture::choose(arch, is_amd.then_some((arch, ""))).unwrap();
    let machine = architecture.machine(3).unwrap();
    let begun = before(&module, "kernel", instrument, &machine).unwrap();
    // Later versions write the calling convention of NVIDIA's kernels.
    let kernel = crate::ir::text(&module).replace("define ptx_kernel ", "define ");
    let kernel = kernel[kernel.find(&format!("{define} @kernel")).unwrap()..].split("\n}").next().unwrap().to_owned();
    if !passes.is_empty() {
        module.run_passes(passes, &machine, PassBuilderOptions::create()).unwrap();
    }
    let instrumented = after(&module, instrument, begun, &machine).unwrap();
    for function in ir::functions(&module) {
        let name = function.name();
        assert!(!function.is_declaration() || name.starts_with("llvm."), "{name} is missing");
    }
    let assembly = machine.write_to_memory_buffer(&module, inkwell::targets::FileType::Assembly).unwrap();
    (kernel, instrumented, String::from_utf8_lossy(assembly.as_slice()).into_owned())
}

/// The same for an NVIDIA GPU.
fn instrumented(instrument: Instrument, signature: &str, body: &str) -> (String, Instrumented, String) {
    instrumented_for("sm_90", instrument, signature, body, "")
}

fn faults(signature: &str, body: &str) -> (String, Instrumented) {
    let (kernel, instrumented, ptx) = instrumented(Instrument::Faults, signature, body);
    assert!(ptx.contains(".entry kernel"), "{ptx}");
    (kernel, instrumented)
}

/// The same for AMD GPUs, whose inserted code is the same.
fn amd_faults(signature: &str, body: &str) -> (String, Instrumented) {
    let [one, other] = AMD.map(|arch| {
        let (kernel, instrumented, assembly) = instrumented_for(arch, Instrument::Faults, signature, body, "");
        assert!(assembly.contains(".amdhsa_kernel kernel"), "{assembly}");
        (kernel, instrumented)
    });
    assert_eq!(one, other);
    one
}

fn calls(kernel: &str, name: &str) -> usize {
    kernel.matches(&format!("@{name}(")).count()
}

/// Counts the calls of a function without a result in PTX; from LLVM 21 on, each is on a single line.
fn ptx_calls(ptx: &str, name: &str) -> usize {
    ptx.split("call.uni").skip(1).filter(|rest| rest.trim_start().starts_with(&format!("{name},"))).count()
}

#[test]
fn the_layout_is_that_of_the_functions() {
    let functions = include_str!("faults.ll");
    assert!(functions.contains(&format!("mul i64 %number, {}\n", layout::ENTRY)));
    assert!(functions.contains(&format!("mul i64 %before, {}\n", layout::EXAMPLE_WORDS * 8)));
    assert!(functions.contains(&format!("icmp ult i64 %before, {}\n", layout::EXAMPLES)));
    assert!(functions.contains(&format!("icmp ugt i64 %bytes, {}\n", layout::SINK)));
    assert!(
        functions.contains(&format!("i64 {})", layout::NO_MEMORY as i64))
            && functions.contains(&format!("i64 {})", layout::NO_SHARED as i64))
    );
    assert_eq!(1 << 2, layout::FAULTS, "numbers are shifted");
    let shared = include_str!("shared.ll");
    assert_eq!(shared.matches(&format!("i64 %number, {}\n", layout::SHADOW_WORD)).count(), 2);
    assert!(shared.contains(&format!("udiv i64 %stride, {}\n", layout::SHADOW_WORD)));
    assert_eq!(Fault::ALL.len(), layout::FAULTS);
    assert!(include_str!("common.ll").contains(&format!("[{} x i64]", layout::WORDS)));
    let writes = include_str!("writes.ll");
    assert!(writes.contains(&format!("and i64 %before, {}\n", layout::RING - 1)));
    assert!(writes.contains(&format!("mul i64 %slot, {}\n", layout::WRITE_WORDS * 8)));
    let touched = include_str!("touched.ll");
    assert!(touched.contains(&format!("and i64 %block, {}\n", layout::COUNTS - 1)));
    assert!(touched.contains(&format!("mul i64 %slot, {}\n", layout::COUNT_WORDS * 8)));
}

#[test]
fn accesses_to_unknown_addresses_ask_and_go_where_they_are_told() {
    let (kernel, instrumented) = faults(
        "ptr %a, ptr addrspace(1) %b, ptr addrspace(3) %c, ptr %d",
        "  %x = load i32, ptr %a, align 4
  store <4 x i32> zeroinitializer, ptr addrspace(1) %b, align 16
  store i32 %x, ptr addrspace(3) %c, align 4
  %old = atomicrmw add ptr %d, i32 1 monotonic
  %pair = cmpxchg ptr %d, i32 0, i32 1 monotonic monotonic
  %y = load volatile i32, ptr %a, align 4
  %z = call i32 @llvm.nvvm.ldg.global.i.i32.p1(ptr addrspace(1) %b, i32 4)
  %w = add i32 %y, %z
  store i32 %w, ptr %a, align 4
  ret void",
    );
    assert_eq!(calls(&kernel, "__mneme_access"), 8, "{kernel}");
    let kinds: Vec<(Access, u64)> = instrumented.sites.iter().map(|site| (site.access, site.bytes)).collect();
    let atomic = (Access::Atomic, 4);
    assert_eq!(
        kinds,
        [
            (Access::Read, 4),
            (Access::Write, 16),
            (Access::Write, 4),
            atomic,
            atomic,
            atomic,
            (Access::Read, 4),
            (Access::Write, 4)
        ]
    );
    for untouched in ["load i32, ptr %a", "ptr addrspace(1) %b, align", "ptr addrspace(3) %c, align", "ptr %d, i32"] {
        assert!(!kernel.contains(untouched), "{untouched}: {kernel}");
    }
    assert_eq!(instrumented.sites[1].instruction, "store <4 x i32> zeroinitializer, ptr addrspace(1) %b, align 16");
}

#[test]
fn ranges_are_all_or_nothing() {
    let (kernel, instrumented) = faults(
        "ptr %a, ptr %b, i64 %n",
        "  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %n, i1 false)
  call void @llvm.memset.p0.i64(ptr %a, i8 0, i64 64, i1 false)
  ret void",
    );
    assert_eq!(calls(&kernel, "__mneme_range"), 3, "{kernel}");
    assert!(!kernel.contains("i64 %n, i1") && !kernel.contains("i64 64, i1"), "{kernel}");
    assert_eq!(
        instrumented.sites.iter().map(|site| site.access).collect::<Vec<_>>(),
        [Access::Read, Access::Write, Access::Write]
    );
}

#[test]
fn what_is_certainly_inside_of_a_variable_is_left_alone() {
    let (kernel, instrumented) = faults(
        "ptr byval(%Pair) align 4 %pair, ptr %out, i64 %i",
        "  %field = getelementptr %Pair, ptr %pair, i32 0, i32 1
  %x = load i32, ptr %field, align 4
  %last = getelementptr [4 x i32], ptr addrspace(4) @table, i64 0, i64 3
  %y = load i32, ptr addrspace(4) %last, align 4
  %any = getelementptr [4 x i32], ptr addrspace(4) @table, i64 0, i64 %i
  %z = load i32, ptr addrspace(4) %any, align 4
  %beyond = getelementptr [4 x i32], ptr addrspace(4) @table, i64 0, i64 4
  %w = load i32, ptr addrspace(4) %beyond, align 4
  %s0 = add i32 %x, %y
  %s1 = add i32 %z, %w
  %s = add i32 %s0, %s1
  store i32 %s, ptr %out, align 4
  ret void",
    );
    assert_eq!((calls(&kernel, "__mneme_offset"), calls(&kernel, "__mneme_access")), (2, 1), "{kernel}");
    assert_eq!(instrumented.sites.len(), 3);
    assert_eq!(instrumented.sites[0].variable.as_deref(), Some("the variable table (16 bytes)"));
    assert!(
        kernel.contains("@__mneme_offset(i64 16, i64 4, i64 16, i32 1, "),
        "the constant offset behind the end: {kernel}"
    );
}

#[test]
fn shared_variables_have_bounds_and_shadows_of_their_own() {
    let (kernel, instrumented) = faults(
        "i64 %i",
        "  %place = getelementptr [64 x i32], ptr addrspacecast (ptr addrspace(3) @shared to ptr), i64 0, i64 %i
  store i32 7, ptr %place, align 4
  %other = getelementptr float, ptr addrspacecast (ptr addrspace(3) @dynamic to ptr), i64 %i
  %x = load float, ptr %other, align 4
  store float %x, ptr %other, align 4
  ret void",
    );
    assert!(kernel.contains("@shared to ptr) to i64), i64 256, i64 0)"), "{kernel}");
    assert!(kernel.contains("i64 -1, i64 256)"), "dynamic memory comes after the static: {kernel}");
    assert_eq!((instrumented.shared_bytes, instrumented.has_shared), (256, true));
    let names: Vec<_> = instrumented.sites.iter().map(|site| site.variable.clone().unwrap()).collect();
    assert_eq!(
        names,
        [
            "the shared variable shared (256 bytes)", "the dynamic shared memory dynamic",
            "the dynamic shared memory dynamic"
        ]
    );
}

#[test]
fn synchronisation_is_followed_where_there_is_shared_memory() {
    let body = "  call void @llvm.nvvm.barrier0()
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  call void @llvm.nvvm.membar.cta()
  call void asm sideeffect \"barrier.sync 1, 64;\", \"~{memory}\"()
  ret void";
    let hooks = |kernel: &str| {
        ["barrier", "warp_arrive", "warp_leave", "relax"].map(|name| calls(kernel, &format!("__mneme_{name}")))
    };
    assert_eq!(hooks(&faults("", body).0), [0; 4]);
    let (kernel, _) = faults("", &format!("  store i32 0, ptr addrspace(3) @shared, align 4\n{body}"));
    assert_eq!(hooks(&kernel), [1, 1, 1, 2], "{kernel}");
    let at = |text: &str| kernel.find(text).unwrap();
    let barrier = if crate::version::LLVM_MAJOR >= 21 { "@llvm.nvvm.barrier.cta.sync" } else { "@llvm.nvvm.barrier0" };
    assert!(at(barrier) < at("@__mneme_barrier"));
    assert!(
        at("@__mneme_warp_arrive") < at("@llvm.nvvm.bar.warp.sync")
            && at("@llvm.nvvm.bar.warp.sync") < at("@__mneme_warp_leave")
    );
}

#[test]
fn local_variables_that_are_set_on_every_path_cost_nothing() {
    let body = |stores: &str| {
        format!(
            "entry:
  %x = alloca i32, align 4
  call void @llvm.lifetime.start.p0(i64 4, ptr %x)
  br i1 %c, label %yes, label %no
yes:
  store i32 1, ptr %x, align 4
  br label %end
no:
  {stores}
  br label %end
end:
  %y = load i32, ptr %x, align 4
  store i32 %y, ptr %out, align 4
  ret void"
        )
    };
    let (set, said) = faults("i1 %c, ptr %out", &body("store i32 2, ptr %x, align 4"));
    assert_eq!((calls(&set, "__mneme_unset"), set.contains("alloca"), said.sites.len()), (0, false, 1), "{set}");
    let (unset, said) = faults("i1 %c, ptr %out", &body(""));
    assert_eq!((calls(&unset, "__mneme_unset"), unset.contains("alloca")), (1, false), "{unset}");
    assert_eq!(said.sites[0].variable.as_deref(), Some("the local variable x"));
    assert_eq!((said.sites[0].access, said.sites[0].bytes), (Access::Read, 4));
}

#[test]
fn local_arrays_are_followed_by_element_and_escaping_ones_not() {
    let array = "  %a = alloca [4 x i32], align 4
  %to = getelementptr [4 x i32], ptr %a, i64 0, i64 %i
  store i32 1, ptr %to, align 4
  %from = getelementptr [4 x i32], ptr %a, i64 0, i64 %j
  %x = load i32, ptr %from, align 4
  store i32 %x, ptr %out, align 4";
    let (kernel, said) = faults("i64 %i, i64 %j, ptr %out", &format!("{array}\n  ret void"));
    assert_eq!((calls(&kernel, "__mneme_unset"), calls(&kernel, "__mneme_offset")), (1, 2), "{kernel}");
    assert!(
        said.sites.iter().all(|site| site.variable.as_deref().is_none_or(|name| !name.contains("mneme"))),
        "{:?}",
        said.sites
    );
    let (kernel, _) =
        faults("i64 %i, i64 %j, ptr %out", &format!("{array}\n  store ptr %a, ptr %out, align 8\n  ret void"));
    assert_eq!(calls(&kernel, "__mneme_unset"), 0, "{kernel}");
}

/// A loop steps through an array by a pointer, as nvcc writes it.
#[test]
fn pointers_that_step_through_a_local_array_are_followed() {
    let body = |mark: &str| {
        format!(
            "%array = alloca [4 x i32], align 4
            call void @llvm.memset.p0.i64(ptr %array, i8 0, i64 16, i1 false){mark}
            br label %loop
            loop:
            %at = phi ptr [ %array, %0 ], [ %next, %loop ]
            store i32 %n, ptr %at, align 4
            %next = getelementptr i8, ptr %at, i64 4
            %more = icmp ult ptr %next, %p
            br i1 %more, label %loop, label %end
            end:
            %place = getelementptr i32, ptr %array, i32 %n
            %value = load i32, ptr %place, align 4
            %sum = add i32 %value, 1
            store i32 %sum, ptr %p, align 4
            store i32 %value, ptr %p, align 4
            ret void"
        )
    };
    // The zeros that the lifter writes to a frame do not count as stores.
    for mark in ["", ", !mneme.frame !9\n"] {
        let (kernel, said) = faults("ptr %p, i32 %n", &body(mark));
        assert_eq!((calls(&kernel, "__mneme_unset"), calls(&kernel, "__mneme_offset")), (1, 2), "{kernel}");
        assert_eq!(said.sites.iter().filter(|site| site.variable.is_some()).count(), 3, "{said:?}");
        assert_eq!(kernel.contains("i8 -1, i64 16"), mark.is_empty(), "{kernel}");
    }
    // A copied structure may have unset members.
    let copied =
        body(", !mneme.frame !9\n").replace("%sum = add i32 %value, 1\n", "").replace("i32 %sum", "i32 %value");
    let beside = "%beside = getelementptr i8, ptr %place, i64 4\n%other = load i32, ptr %beside, align 4
        store i32 %other, ptr %p, align 4\nret void";
    for (text, unset) in [(copied.clone(), 1), (copied.replace("ret void", beside), 0)] {
        let (kernel, _) = faults("ptr %p, i32 %n", &text);
        assert_eq!(calls(&kernel, "__mneme_unset"), unset, "{kernel}");
    }
}

/// PTX holds addresses of shared memory in 32-bit registers.
#[test]
fn numbers_that_are_addresses_in_a_shared_variable_have_its_bounds() {
    let address = |sum: &str| {
        format!(
            "%base = ptrtoint ptr addrspace(3) @shared to i32
            {sum}
            %place = inttoptr i32 %address to ptr addrspace(3)
            store i32 1, ptr addrspace(3) %place, align 4
            ret void"
        )
    };
    for (sum, known) in [
        ("%address = add i32 %n, %base", 1),
        ("%before = sub i32 %base, %n\n%address = add i32 %before, %n", 1),
        ("%address = xor i32 %base, %n", 0),
        ("%address = add i32 %base, %base", 0),
    ] {
        let (kernel, _) = faults("ptr %p, i32 %n", &address(sum));
        assert_eq!(calls(&kernel, "__mneme_shared"), known, "{kernel}");
    }
}

#[test]
fn padding_and_parts_are_no_reads() {
    let (kernel, _) = faults(
        "ptr %out, i32 %v",
        "  %p = alloca %Pair, align 4
  %bits = alloca i32, align 4
  %field = getelementptr %Pair, ptr %p, i32 0, i32 1
  store i32 %v, ptr %field, align 4
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %p, i64 8, i1 false)
  %old = load i32, ptr %bits, align 4
  %cleared = and i32 %old, -8
  %new = or i32 %cleared, 3
  store i32 %new, ptr %bits, align 4
  ret void",
    );
    assert_eq!(calls(&kernel, "__mneme_unset"), 0, "{kernel}");
}

#[test]
fn what_cannot_be_watched_is_told() {
    let (_, said) = faults(
        "ptr %a",
        "  %x = call i32 asm sideeffect \"ld.global.nc.b32 $0, [$1];\", \"=r,l\"(ptr %a)
  %t = call i32 asm \"mov.u32 $0, 5;\", \"=r\"()
  ret void",
    );
    assert_eq!(said.unwatched, ["inline PTX `ld.global.nc.b32 $0, [$1];` in kernel"]);
}

#[test]
fn writes_are_noted_after_they_happened() {
    let (_, said, ptx) = instrumented(
        Instrument::Writes,
        "ptr %a, ptr addrspace(1) %b, i64 %n",
        "  %x = load i32, ptr %a, align 4
  store i32 %x, ptr addrspace(1) %b, align 4
  %old = atomicrmw add ptr %a, i32 1 monotonic
  store i32 %x, ptr addrspace(3) @shared, align 4
  call void @llvm.memset.p0.i64(ptr %a, i8 0, i64 %n, i1 false)
  ret void",
    );
    let sites: Vec<(Access, u64)> = said.sites.iter().map(|site| (site.access, site.bytes)).collect();
    assert_eq!(sites, [(Access::Write, 4), (Access::Atomic, 4), (Access::Write, 0)]);
    assert_eq!(ptx_calls(&ptx, "__mneme_written"), 3, "{ptx}");
}

#[test]
fn what_is_touched_is_marked_whatever_the_pipeline_leaves_of_it() {
    let (_, said, ptx) = instrumented(
        Instrument::Touched,
        "ptr %a, ptr addrspace(1) %b, i64 %n",
        "  %unused = load i32, ptr %a, align 4
  store i32 1, ptr addrspace(1) %b, align 4
  %old = atomicrmw add ptr %a, i32 1 monotonic
  store i32 2, ptr addrspace(3) @shared, align 4
  call void @llvm.memcpy.p0.p1.i64(ptr %a, ptr addrspace(1) %b, i64 %n, i1 false)
  ret void",
    );
    let sites: Vec<(Access, u64)> = said.sites.iter().map(|site| (site.access, site.bytes)).collect();
    let both = [(Access::Read, 0), (Access::Write, 0)];
    assert_eq!(sites[..3], [(Access::Read, 4), (Access::Write, 4), (Access::Atomic, 4)]);
    assert!(both.iter().all(|access| sites[3..].contains(access)) && sites.len() == 5, "{sites:?}");
    assert_eq!(ptx_calls(&ptx, "__mneme_touched"), 5, "{ptx}");
}

#[test]
fn operations_are_added_where_a_thread_may_end() {
    let signature = "ptr %a, float %x, double %y";
    let body = "  %one = fadd float %x, 1.0
  %is_more = fcmp ugt float %one, %x
  EXIT
  br i1 %is_more, label %more, label %done
more:
  %two = fmul double %y, %y
  store double %two, ptr %a, align 8
  ret void
done:
  store float %one, ptr %a, align 4
  ret void";
    let exits = body.replace("EXIT", "call void asm sideeffect \"exit;\", \"~{memory}\"()");
    for (body, signature, calls) in [
        (&*exits, signature, 3),
        (&*body.replace("EXIT", ""), signature, 2),
        ("  store i32 1, ptr %a, align 4\n  ret void", "ptr %a", 0),
    ] {
        let (_, _, ptx) = instrumented(Instrument::Touched, signature, body);
        assert_eq!(ptx_calls(&ptx, "__mneme_performed"), calls, "{ptx}");
    }
    for arch in AMD {
        let (_, _, assembly) = instrumented_for(arch, Instrument::Touched, signature, &body.replace("EXIT", ""), "");
        assert!(assembly.contains("__mneme_performed"), "{assembly}");
    }
}

#[test]
fn lines_of_the_source_come_through_inlining() {
    let context = Context::create();
    let text = format!(
        "{HEAD}
define internal void @set(ptr %p) !dbg !10 {{
  store i32 1, ptr %p, align 4, !dbg !12
  ret void, !dbg !12
}}
define void @kernel(ptr %a) !dbg !11 {{
  call void @set(ptr %a), !dbg !13
  ret void, !dbg !13
}}
!llvm.dbg.cu = !{{!3}}
!llvm.module.flags = !{{!4}}
!3 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: !5, emissionKind: LineTablesOnly)
!4 = !{{i32 2, !\"Debug Info Version\", i32 3}}
!5 = !DIFile(filename: \"k.cu\", directory: \"/src\")
!6 = !DISubroutineType(types: !7)
!7 = !{{}}
!10 = distinct !DISubprogram(name: \"set\", file: !5, line: 3, type: !6, unit: !3, spFlags: DISPFlagDefinition)
!11 = distinct !DISubprogram(name: \"kernel\", file: !5, line: 7, type: !6, unit: !3, spFlags: DISPFlagDefinition)
!12 = !DILocation(line: 4, column: 6, scope: !10)
!13 = !DILocation(line: 8, column: 3, scope: !11)
"
    );
    let module =
        context.create_module_from_ir(MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test")).unwrap();
    let machine = CodegenArchitecture::choose("sm_90", None).unwrap().machine(3).unwrap();
    let said = before(&module, "kernel", Instrument::Faults, &machine).unwrap();
    let inlined = said.sites.iter().find(|site| site.function == "kernel").expect("the kernel has the store");
    let lines: Vec<_> = inlined
        .source
        .iter()
        .map(|line| (line.file.as_str(), line.line, line.column, line.function.as_str()))
        .collect();
    assert_eq!(lines, [("/src/k.cu", 4, 6, "set"), ("/src/k.cu", 8, 3, "kernel")]);
}

#[test]
fn pointers_of_amd_s_address_spaces_are_asked_about() {
    let (kernel, instrumented) = amd_faults(
        "ptr addrspace(1) %a, ptr addrspace(3) %b, i64 %i",
        "  %any = load ptr, ptr addrspace(1) %a, align 8
  %x = load i32, ptr %any, align 4
  store i32 %x, ptr addrspace(3) %b, align 4
  %old = atomicrmw add ptr addrspace(1) %a, i32 1 syncscope(\"agent\") monotonic
  %element = getelementptr [4 x i32], ptr addrspace(4) @table, i64 0, i64 %i
  %y = load i32, ptr addrspace(4) %element, align 4
  %place = getelementptr [64 x i32], ptr addrspace(3) @shared, i64 0, i64 %i
  store i32 %y, ptr addrspace(3) %place, align 4
  %other = getelementptr float, ptr addrspacecast (ptr addrspace(3) @dynamic to ptr), i64 %i
  store float 0.0, ptr %other, align 4
  ret void",
    );
    let asked = ["access", "offset", "shared"].map(|name| calls(&kernel, &format!("__mneme_{name}")));
    assert_eq!(asked, [4, 1, 2], "{kernel}");
    for untouched in ["ptr %any, align", "ptr addrspace(3) %b, align", "ptr addrspace(3) %place, align"] {
        assert!(!kernel.contains(untouched), "{untouched}: {kernel}");
    }
    let variables: Vec<_> = instrumented.sites.iter().filter_map(|site| site.variable.as_deref()).collect();
    assert_eq!(
        variables,
        [
            "the variable table (16 bytes)", "the shared variable shared (256 bytes)",
            "the dynamic shared memory dynamic"
        ]
    );
    assert_eq!((instrumented.shared_bytes, instrumented.has_shared), (256, true));
}

#[test]
fn the_memory_that_tells_the_launch_is_left_alone() {
    let (kernel, instrumented) = amd_faults(
        "ptr addrspace(4) byref(%Pair) align 4 %pair, i1 %c",
        "  %hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %one = getelementptr i8, ptr addrspace(4) %hidden, i64 12
  %other = getelementptr i8, ptr addrspace(4) %packet, i64 4
  %place = select i1 %c, ptr addrspace(4) %one, ptr addrspace(4) %other
  %size = load i16, ptr addrspace(4) %place, align 2
  %blocks = load i32, ptr addrspace(4) %hidden, align 4
  %field = getelementptr %Pair, ptr addrspace(4) %pair, i32 0, i32 1
  %x = load i32, ptr addrspace(4) %field, align 4
  ret void",
    );
    assert_eq!((kernel.contains("@__mneme_"), instrumented.sites.len()), (false, 0), "{kernel}");
}

#[test]
fn local_variables_of_amd_s_kernels_are_followed_through_generic_pointers() {
    let body = |stores: &str| {
        format!(
            "entry:
  %x = alloca i32, align 4, addrspace(5)
  %x.generic = addrspacecast ptr addrspace(5) %x to ptr
  call void @llvm.lifetime.start.p5(i64 4, ptr addrspace(5) %x)
  br i1 %c, label %yes, label %no
yes:
  store i32 1, ptr %x.generic, align 4
  br label %end
no:
  {stores}
  br label %end
end:
  %y = load i32, ptr %x.generic, align 4
  store i32 %y, ptr addrspace(1) %out, align 4
  ret void"
        )
    };
    let (set, said) = amd_faults("i1 %c, ptr addrspace(1) %out", &body("store i32 2, ptr %x.generic, align 4"));
    assert_eq!((calls(&set, "__mneme_unset"), set.contains("alloca"), said.sites.len()), (0, false, 1), "{set}");
    let (unset, said) = amd_faults("i1 %c, ptr addrspace(1) %out", &body(""));
    assert_eq!((calls(&unset, "__mneme_unset"), unset.contains("alloca")), (1, false), "{unset}");
    assert_eq!(said.sites[0].variable.as_deref(), Some("the local variable x"));

    let array = "  %a = alloca [4 x i32], align 4, addrspace(5)
  %p = alloca ptr, align 8, addrspace(5)
  %a.generic = addrspacecast ptr addrspace(5) %a to ptr
  %p.generic = addrspacecast ptr addrspace(5) %p to ptr
  store ptr %a.generic, ptr %p.generic, align 8
  %base = load ptr, ptr %p.generic, align 8
  %to = getelementptr [4 x i32], ptr %base, i64 0, i64 %i
  store i32 1, ptr %to, align 4
  %from = getelementptr [4 x i32], ptr %a.generic, i64 0, i64 %j
  %x = load i32, ptr %from, align 4
  store i32 %x, ptr addrspace(1) %out, align 4
  call void @llvm.memset.p0.i64(ptr %a.generic, i8 0, i64 16, i1 false)
  call void @llvm.memcpy.p0.p4.i64(ptr %a.generic, ptr addrspace(4) @table, i64 16, i1 false)
  ret void";
    let (kernel, _) = amd_faults("i64 %i, i64 %j, ptr addrspace(1) %out", array);
    assert_eq!((calls(&kernel, "__mneme_unset"), calls(&kernel, "__mneme_offset")), (1, 2), "{kernel}");
}

#[test]
fn synchronisation_of_amd_s_kernels_is_followed() {
    let hooks = |body: &str| {
        let store = "store i32 0, ptr addrspace(3) @shared, align 4";
        let (kernel, _) = amd_faults("i1 %c", &format!("  {store}\n{body}\n  ret void"));
        ["barrier", "warp_arrive", "warp_leave", "relax"].map(|name| calls(&kernel, &format!("__mneme_{name}")))
    };
    let barrier = "  call void @llvm.amdgcn.s.barrier()";
    let fence = "  fence syncscope(\"workgroup\") acq_rel";
    let wave_fence = "  fence syncscope(\"wavefront\") acq_rel";
    let wave = "  call void @llvm.amdgcn.wave.barrier()";
    let store = "  store i32 1, ptr addrspace(3) @shared, align 4";
    assert_eq!(hooks(&[fence, barrier, fence].join("\n")), [1, 0, 0, 0], "a barrier as the front end writes it");
    assert_eq!(hooks(&[fence, store, barrier].join("\n")), [1, 0, 0, 1], "a fence, and a barrier");
    assert_eq!(hooks(&[wave_fence, wave, wave_fence].join("\n")), [0, 1, 1, 0], "a barrier of a wave");
    assert_eq!(hooks(&[fence, wave].join("\n")), [0, 1, 1, 1], "others may be told something by the fence");
    let exchange = "  %x = call i32 @llvm.amdgcn.ds.bpermute(i32 0, i32 1)
  store i32 %x, ptr addrspace(3) @shared, align 4";
    assert_eq!(hooks(exchange), [0, 1, 1, 0]);
    assert_eq!(hooks("  call void @llvm.amdgcn.s.sleep(i32 1)"), [0, 0, 0, 1]);
    assert_eq!(hooks("  call void asm sideeffect \"s_nop 0 ; nothing\\0As_waitcnt lgkmcnt(0)\", \"\"()"), [0; 4]);
    assert_eq!(hooks("  call void asm sideeffect \"s_barrier\", \"\"()"), [0, 0, 0, 1]);
    let choice = |way: &str| {
        format!("  br i1 %c, label %yes, label %no\nyes:\n{fence}\n  br label %end\nno:\n{way}\n  br label %end\nend:")
    };
    assert_eq!(hooks(&format!("{}\n{barrier}", choice(fence))), [1, 0, 0, 0], "in whichever of several ways");
    assert_eq!(hooks(&format!("{barrier}\n{}\n{store}", choice(fence))), [1, 0, 0, 0], "and after it");
    let one_way = format!("{fence}\n  br i1 %c, label %yes, label %end\nyes:\n{barrier}\n  br label %end\nend:");
    assert_eq!(hooks(&one_way), [1, 0, 0, 1], "not every way comes to the barrier");
}

#[test]
fn what_cannot_be_watched_of_amd_s_kernels_is_told() {
    let (_, said) = amd_faults(
        "ptr addrspace(1) %a, ptr addrspace(8) %b",
        "  %x = call i32 asm sideeffect \"global_load_dword $0, $1, off\", \"=v,v\"(ptr addrspace(1) %a)
  %y = call i32 @llvm.amdgcn.raw.ptr.buffer.load.i32(ptr addrspace(8) %b, i32 0, i32 0, i32 0)
  %fat = addrspacecast ptr addrspace(8) %b to ptr addrspace(7)
  store i32 %y, ptr addrspace(7) %fat, align 4
  call void asm sideeffect \"s_nop 0\", \"\"()
  ret void",
    );
    assert_eq!(
        said.unwatched,
        [
            "`llvm.amdgcn.raw.ptr.buffer.load.i32` in kernel",
            "an access to address space 7 in kernel",
            "inline assembly `global_load_dword $0, $1, off` in kernel"
        ]
    );
}

#[test]
fn writes_of_amd_s_kernels_are_noted() {
    for arch in AMD {
        let (_, said, assembly) = instrumented_for(
            arch,
            Instrument::Writes,
            "ptr %a, ptr addrspace(1) %b, i64 %n",
            "  %x = load i32, ptr %a, align 4
  %local = alloca i32, align 4, addrspace(5)
  store i32 %x, ptr addrspace(5) %local, align 4
  store i32 %x, ptr addrspace(1) %b, align 4
  %old = atomicrmw add ptr %a, i32 1 monotonic
  store i32 %x, ptr addrspace(3) @shared, align 4
  call void @llvm.memset.p0.i64(ptr %a, i8 0, i64 %n, i1 false)
  ret void",
            "",
        );
        let sites: Vec<(Access, u64)> = said.sites.iter().map(|site| (site.access, site.bytes)).collect();
        assert_eq!(sites, [(Access::Write, 4), (Access::Atomic, 4), (Access::Write, 0)]);
        assert!(assembly.matches("__mneme_written@rel32@lo").count() >= 1, "{assembly}");
    }
}

/// Passes have found that the kernel does not need its dispatch packet, but the linked functions do.
#[test]
fn what_is_linked_in_has_what_it_asks_for() {
    for arch in AMD {
        let body = "  store i32 1, ptr addrspace(1) %a, align 4\n  ret void";
        let (_, _, assembly) = instrumented_for(arch, Instrument::Writes, "ptr addrspace(1) %a", body, "");
        assert!(assembly.contains(".amdhsa_user_sgpr_dispatch_ptr 1"), "{assembly}");
    }
}

/// Pipelines make variables internal if they have no known outside use, and remove unused ones.
#[test]
fn pipelines_leave_what_is_completed_after_them() {
    for (arch, space) in [("sm_90", "ptr"), ("gfx90a", "ptr addrspace(1)"), ("gfx1030", "ptr addrspace(1)")] {
        for passes in ["default<O0>", "default<O3>"] {
            let body = format!(
                "  %place = getelementptr [64 x i32], ptr addrspace(3) @shared, i64 0, i64 %i
  store i32 0, ptr addrspace(3) %place, align 4
  %x = load i32, {space} %a, align 4
  store i32 %x, ptr addrspace(3) @shared, align 4
  ret void"
            );
            let signature = format!("{space} %a, i64 %i");
            let (_, said, assembly) = instrumented_for(arch, Instrument::Faults, &signature, &body, passes);
            assert_eq!(said.sites.len(), 3, "{arch} {passes}");
            assert!(assembly.contains("__mneme_state"), "{assembly}");
        }
    }
}
