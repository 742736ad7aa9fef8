//! The target for PTX that is lifted to LLVM IR.

use super::{FuzzTarget, nothing};

pub const LIFTING: FuzzTarget = FuzzTarget { name: "lifting", seeds: lifting_seeds, seal: nothing, run: run_lifting };

const HEADER: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";

/// A kernel of these declarations and instructions, with what compilers put around one.
fn kernel(around: &str, body: &str) -> String {
    format!(
        "{HEADER}{around}\n.visible .entry k(.param .u64 out, .param .align 8 .b8 q[24]) .maxntid 64, 1, 1 {{\n\
         .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<4>; .reg .f64 %d<4>;\n\
         ld.param.u64 %rd1, [out];\n{body}\nret;\n}}\n"
    )
}

fn lifting_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        kernel(
            ".extern .shared .align 16 .b8 dynamic[];\n.visible .const .align 4 .u32 table[2][2] = {{1, 2}, {3 + 4 * 5, 0x10U}};\n\
             .global .align 8 .u64 held[3] = {table, generic(table)+8, 7% 3 ? 1 << 3 : ~0};",
            "ld.param.f64 %d1, [q+8]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, %tid.x;\n\
             mad.wide.u32 %rd3, %r1, 4, %rd2; add.cc.u32 %r2, %r1, 1; addc.u32 %r3, %r2, 0;\n\
             setp.lt.and.s32 %p1|%p2, %r1, 0, !%p1; @!%p1 ld.global.v2.u32 {%r4, %r5}, [%rd3+-8];\n\
             mov.u32 %r6, dynamic; st.volatile.shared.u32 [%r6+4], %r4; bar.sync 0;\n\
             atom.acq_rel.gpu.global.cas.b32 %r7, [%rd3], %r1, %r2; fma.rn.ftz.f32 %f1, %f2, 0f3F800000, %f3;\n\
             cvt.rni.ftz.s32.f32 %r1, %f1; shfl.sync.bfly.b32 %r2|%p2, %r1, 1, 31, -1; st.global.f64 [%rd2], %d1;",
        ),
        kernel(
            ".file 1 \"/a\" \"k.cu\"\n.section .debug_str { $n: .b8 104, 0 }",
            ".loc 1 20 5\n{ .reg .b32 %r; mov.u32 %r, 3; L: sub.u32 %r, %r, 1; setp.ne.u32 %p1, %r, 0; @%p1 bra L; }\n\
             .loc 1 7 3, function_name $n+0, inlined_at 1 20 5\nT: .branchtargets A, B;\nbrx.idx %r1, T;\n\
             A: st.global.u32 [%rd1], 1; bra.uni C;\nB: exit;\nC: trap;",
        ),
        kernel(
            ".func (.param .b32 out) f(.param .b32 in) { .reg .b32 %r<3>; ld.param.u32 %r1, [in]; st.param.b32 [out], %r1; ret; }\n\
             .visible .func g(.reg .u32 x) { ret; }\n.weak .func h;\n.alias h2, g;",
            "{ .local .align 8 .b8 frame[16]; .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), f, (a);\n\
             ld.param.b32 %r2, [b]; P: .callprototype (.param .b32 _) _ (.param .b32 _); mov.u64 %rd2, f;\n\
             call (b), %rd2, (a), P; mov.u64 %rd3, frame; cvta.local.u64 %rd4, %rd3; st.u32 [%rd4], %r2; }",
        ),
        kernel(
            "",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f1}, {%r1, %r2, %r3, %r4}, {%r5, %r6},\n\
             {%f1, %f2, %f3, %f1}; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];\n\
             tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f1}, [%rd2, {%f1, %f2}]; prmt.b32 %r1, %r2, %r3, 0x5410;\n\
             wgmma.fence.sync.aligned; bfe.s32 %r1, %r2, 3, 5; lop3.b32 %r1, %r2, %r3, %r4, 0x96; mul.hi.u64 %rd3, %rd1, -3;\n\
             @%p1 red.global.add.f32 [%rd1+2*4-4], %f1; div.rn.f64 %d1, %d2, 0d3FF0000000000000; dp4a.s32.u32 %r1, %r2, %r3, %r4;",
        ),
    ];
    for seed in &seeds[..2] {
        mneme_ptx::lift(seed).unwrap_or_else(|error| panic!("the seed is well-formed: {error}\n{seed}"));
    }
    seeds.into_iter().map(String::into_bytes).collect()
}

fn run_lifting(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(lifted) = mneme_ptx::lift(&text) {
        lifted.finish(&lifted.ir);
    } else {
        let _ = mneme_ptx::lift_program(&text);
    }
}
