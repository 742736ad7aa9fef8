//! The target for inline PTX, which the CPU device has functions for.

use super::{FuzzTarget, nothing};

pub const INLINE_PTX: FuzzTarget = FuzzTarget { name: "inline_ptx", seeds, seal: nothing, run };

/// A line of constraints, as clang writes them, and the assembly.
const SEEDS: &[&str] = &[
    "=r,r,r,~{memory}\n{ .reg .pred p; .reg .u32 t<3>; setp.lt.and.s32 p|_, $1, $2, !p; @!p add.cc.u32 t0, $1, 0x10U;\n\
     // a comment\n addc.u32 t1, t0, -1; mad.hi.s32 $0, t1, ${2:x}, 7; }",
    "=l,=l,l,l\n{ .reg .u32 a, b; mov.b64 {a, b}, $2; /* pairs */ mov.b64 $0, {b, a}; shf.r.wrap.b32 a, a, b, 5;\n\
     mul.wide.u32 $1, a, b; }",
    "=f,f,d,h\n{ .reg .f16 x; cvt.rn.f16.f32 x, $1; fma.rn.ftz.f32 $0, $1, 0f3F800000, 0d3FF0000000000000; }",
    "=r,l,r\nld.volatile.global.v2.u32 {$0, _}, [$1 + 8]; atom.acq_rel.gpu.global.cas.b32 $0, [$1-4], $2, 1;\n\
     red.shared.add.u32 [$2], 3; fence.acq_rel.gpu; cp.async.cg.shared.global [$2], [$1], 16;",
    "=r,=r,=r,=r,r,r,r\nmma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {$0, $1}, {$4, $5, $6, $4}, {$5, $6}, {$4, $5};\n\
     ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0, $1, $2, $3}, [$4]; prmt.b32 $0, $1, $2, 0x5410; lop3.b32 $0,\n\
     $1, $2, $3, 0x96; bfi.b32 $0, $1, $2, 3, 5; shfl.sync.bfly.b32 $0|p, $1, 1, 31, -1; vabsdiff4.u32.u32.u32 $0, $1, $2, $3;",
    "=l,r\nmov.b64 $0, {}; .reg .u32 a, t<18446744073709551615>;",
    "=r,l,r\n.reg .u32 a, t<18446744073709551615>;",
];

fn seeds() -> Vec<Vec<u8>> {
    for seed in &SEEDS[..2] {
        translated(seed).unwrap_or_else(|what| panic!("the seed has a translation: {what}\n{seed}"));
    }
    // Operands in operands, more than a stack holds.
    let nested = format!("=r\nmov.b32 $0, {}{};", "{".repeat(20_000), "}".repeat(20_000));
    SEEDS.iter().map(|seed| (*seed).to_owned()).chain([nested]).map(String::into_bytes).collect()
}

fn run(input: &[u8]) {
    let _ = translated(&String::from_utf8_lossy(input));
}

fn translated(input: &str) -> Result<mneme_ptx::Inline, mneme_ptx::Untranslated> {
    let (constraints, text) = input.split_once('\n').unwrap_or((input, ""));
    let ty = |constraint: &str| match constraint.trim_start_matches(['=', '&']) {
        "h" => "i16",
        "l" => "i64",
        "f" => "float",
        "d" => "double",
        "q" => "i128",
        "b" => "i1",
        _ => "i32",
    };
    let operands = constraints.split(',').filter(|part| !part.is_empty() && !part.starts_with('~'));
    let (results, parameters): (Vec<_>, Vec<_>) = operands.partition(|part| part.starts_with('='));
    let results: Vec<_> = results.into_iter().map(ty).collect();
    let parameters: Vec<_> = parameters.into_iter().map(ty).collect();
    let result = match &results[..] {
        [] => "void".to_owned(),
        [one] => (*one).to_owned(),
        all => format!("{{ {} }}", all.join(", ")),
    };
    let parameters: Vec<String> = parameters.into_iter().map(str::to_owned).collect();
    mneme_ptx::inline(text, constraints, &result, &parameters)
}
