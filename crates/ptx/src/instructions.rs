//! The table of PTX's instructions: their forms, which belong together, and their effects.
//!
//! docs/reference/ptx.md is made from it, by a test that has each form translated for both targets.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Instructions that one function writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Where threads go on.
    Control,
    Trap,
    Move,
    Convert,
    Compare,
    Select,
    /// On numbers of every type.
    Arithmetic,
    /// A question about a float.
    Property,
    Bits,
    Video,
    Memory,
    Warp,
    Matrix,
    Fragment,
    Image,
    /// A barrier in memory.
    MemoryBarrier,
    Copy,
    Sleep,
    /// What may be left out.
    Hint,
    Other,
}

/// Whether an instruction writes its first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    First,
    Nothing,
    /// The first with this modifier, else nothing.
    With(&'static str),
}

/// What is known of an instruction by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub family: Family,
    /// It reads or writes memory, or is about other threads, whatever its operands are.
    pub memory: bool,
    /// It depends on which threads come to it together.
    pub collective: bool,
    pub writes: Writes,
}

impl Row {
    const fn memory(self) -> Self {
        Self { memory: true, ..self }
    }

    const fn collective(self) -> Self {
        Self { memory: true, collective: true, ..self }
    }

    const fn writes(self, writes: Writes) -> Self {
        Self { writes, ..self }
    }
}

use Writes::{Nothing, With};

const fn of(family: Family) -> Row {
    Row { family, memory: false, collective: false, writes: Writes::First }
}

/// An instruction that has no row.
pub static UNKNOWN: Row = of(Family::Other);

/// Instructions of one row, and their forms: modifiers, with choices in braces, and operands. The operand `t` is a
/// register of the last type, `s` of the first one; `h`, `r`, `l` and `q` have 16 to 128 bits, and `p` is a predicate.
/// A number behind the letter says how often it stands there.
pub type Group = (&'static [&'static str], Row, &'static [&'static str]);

/// All instructions.
#[rustfmt::skip]
pub static INSTRUCTIONS: &[Group] = &[
    (&["ret", "exit"], of(Family::Control), &[]),
    (&["bra", "brx"], of(Family::Control).writes(Nothing), &[]),
    (&["call"], of(Family::Control).collective().writes(Nothing), &[]),
    (&["trap"], of(Family::Trap).memory(), &[" "]),
    (&["mov"], of(Family::Move), &[
        ".{b16,b32,b64,f32,f64,pred} t, t", ".b32 r, {h, h}", ".b32 {h, h}, r", ".b64 l, {r, r}", ".b64 {r, r}, l",
        ".b128 q, {l, l}"]),
    (&["cvt"], of(Family::Convert), &[
        ".{u8,s8,u16,s16,u32,s32,u64,s64}.{u16,s16,u32,s32,u64,s64} s, t",
        ".sat.{u8,s8,u16,s16,u32,s32}.{u32,s32,u64,s64} s, t", ".rn.{f32,f64}.{u16,s16,u32,s32,u64,s64} s, t",
        ".{rz,rm,rp}.{f32,f64}.{u32,s32,u64,s64} s, t", ".rn.sat.f32.{u32,s32} s, t", ".rn.{f16,bf16}.{u32,s32} s, t",
        ".{rni,rzi,rmi,rpi}.{u16,s16,u32,s32,u64,s64}.{f16,f32,f64} s, t",
        ".{rni,rzi,rmi,rpi}.ftz.{u32,s32,u64,s64}.f32 s, t", ".f64.f32 l, r", ".rn.f32.f64 r, l",
        ".{rz,rm,rp}.f32.f64 r, l", ".{rni,rzi,rmi,rpi}.{f32.f32,f64.f64} s, t", ".sat.f32.f32 r, r",
        ".ftz.f32.f32 r, r", ".f32.f16 r, h", ".f32.bf16 r, h", ".rn.f16.{f32,f64} s, t", ".rn{,.relu}.bf16.f32 h, r",
        ".{rn,rz}{,.relu}.{f16x2,bf16x2}.f32 r, r, r", ".{rna,rn,rz}.tf32.f32 r, r",
        ".rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32 h, r, r", ".rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2 h, r",
        ".rn{,.relu}.f16x2.{e4m3x2,e5m2x2} r, h"]),
    (&["setp"], of(Family::Compare), &[
        ".{eq,ne,lt,le,gt,ge}.{u16,s16,u32,s32,u64,s64,f32,f64} p, t, t", ".{lo,ls,hi,hs}.{u32,u64} p, t, t",
        ".{equ,neu,ltu,leu,gtu,geu,num,nan}.{f32,f64} p, t, t", ".lt.{and,or,xor}.{s32,f32} p|p, t, t, p",
        ".lt.f16 p, h, h", ".lt.ftz.f32 p, r, r", ".lt.bf16 p, h, h", ".lt.{f16x2,bf16x2} p|p, r, r"]),
    (&["set"], of(Family::Compare), &[
        ".lt.{u32,s32,f32}.{u32,s32,f32} r, r, r", ".lt.{and,or,xor}.u32.s32 r, r, r, p", ".lt.f16.f16 h, h, h",
        ".lt.{f16x2.f16x2,bf16x2.bf16x2} r, r, r"]),
    (&["selp"], of(Family::Select), &[".{b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64} t, t, t, p"]),
    (&["slct"], of(Family::Select), &[".{b32,u32,s32,f32,b64,f64}.s32 s, s, s, r",
        "{,.ftz}.{b32,f32,b64}.f32 s, s, s, r"]),
    (&["add", "sub"], of(Family::Arithmetic), &[
        ".{u16,s16,u32,s32,u64,s64} t, t, t", ".cc.{u32,s32,u64,s64} t, t, t", ".sat.s32 r, r, r",
        "{,.rn}.{f32,f64} t, t, t", ".rn.ftz.f32 r, r, r", ".ftz.f32 r, r, r", "{,.ftz}.sat.f32 r, r, r",
        ".{rz,rm,rp}.{f32,f64} t, t, t", "{,.rn}.f16 h, h, h", "{,.rn}.{f16x2,bf16,bf16x2} t, t, t",
        "{,.rn}.ftz.{f16,f16x2} t, t, t"]),
    (&["add", "min", "max"], of(Family::Arithmetic), &[".{u16x2,s16x2} r, r, r"]),
    (&["addc", "subc"], of(Family::Arithmetic), &["{,.cc}.{u32,s32,u64,s64} t, t, t"]),
    (&["mul"], of(Family::Arithmetic), &[
        ".{lo,hi}.{u16,s16,u32,s32,u64,s64} t, t, t", ".wide.{u16,s16} r, t, t", ".wide.{u32,s32} l, t, t",
        "{,.rn}.{f32,f64} t, t, t", ".rn.ftz.f32 r, r, r", ".ftz.f32 r, r, r", "{,.ftz}.sat.f32 r, r, r",
        ".{rz,rm,rp}.{f32,f64} t, t, t", "{,.rn}.f16 h, h, h", "{,.rn}.{f16x2,bf16,bf16x2} t, t, t"]),
    (&["mad"], of(Family::Arithmetic), &[
        ".{lo,hi}.{u16,s16,u32,s32,u64,s64} t, t, t, t", ".wide.{u16,s16} r, t, t, r", ".wide.{u32,s32} l, t, t, l",
        ".{lo,hi}.cc.{u32,s32,u64,s64} t, t, t, t"]),
    (&["madc"], of(Family::Arithmetic), &[".{lo,hi}{,.cc}.{u32,s32,u64,s64} t, t, t, t"]),
    (&["mul24"], of(Family::Arithmetic), &[".{lo,hi}.{u32,s32} r, r, r"]),
    (&["mad24"], of(Family::Arithmetic), &[".{lo,hi}.{u32,s32} r, r, r, r"]),
    (&["fma"], of(Family::Arithmetic), &[
        ".rn.{f32,f64} t, t, t, t", ".rn.ftz.f32 r, r, r, r", ".rn{,.ftz}.sat.f32 r, r, r, r",
        ".{rz,rm,rp}.{f32,f64} t, t, t, t", ".rn.f16 h, h, h, h", ".rn.{f16x2,bf16,bf16x2} t, t, t, t",
        ".rn.relu.{f16,f16x2,bf16,bf16x2} t, t, t, t"]),
    (&["div"], of(Family::Arithmetic), &[
        ".{u16,s16,u32,s32,u64,s64} t, t, t", ".rn.{f32,f64} t, t, t", ".rn.ftz.f32 r, r, r",
        ".approx{,.ftz}.f32 r, r, r", ".full{,.ftz}.f32 r, r, r", ".{rz,rm,rp}.{f32,f64} t, t, t"]),
    (&["rem"], of(Family::Arithmetic), &[".{u16,s16,u32,s32,u64,s64} t, t, t"]),
    (&["rcp"], of(Family::Arithmetic), &[
        ".rn.{f32,f64} t, t", ".rn.ftz.f32 r, r", ".approx.ftz.f32 r, r", ".approx.f32 r, r",
        ".{rz,rm,rp}.{f32,f64} t, t", ".approx.ftz.f64 l, l"]),
    (&["sqrt"], of(Family::Arithmetic), &[
        ".rn.{f32,f64} t, t", ".rn.ftz.f32 r, r", ".approx{,.ftz}.f32 r, r", ".{rz,rm,rp}.{f32,f64} t, t"]),
    (&["rsqrt"], of(Family::Arithmetic), &[".approx{,.ftz}.f32 r, r", ".approx{,.ftz}.f64 l, l"]),
    (&["sin", "cos", "ex2", "lg2"], of(Family::Arithmetic), &[".approx{,.ftz}.f32 r, r"]),
    (&["ex2"], of(Family::Arithmetic), &[".approx.{f16,f16x2} t, t", ".approx.ftz.{bf16,bf16x2} t, t"]),
    (&["tanh"], of(Family::Arithmetic), &[".approx.{f32,f16,f16x2,bf16,bf16x2} t, t"]),
    (&["min", "max"], of(Family::Arithmetic), &[
        ".{u16,s16,u32,s32,u64,s64} t, t, t", ".relu.{s32,s16x2} r, r, r", ".{f32,f64} t, t, t", ".ftz.f32 r, r, r",
        ".NaN.f32 r, r, r", ".ftz.NaN.f32 r, r, r", ".xorsign.abs.f32 r, r, r", ".{f16,f16x2,bf16,bf16x2} t, t, t",
        ".f32 r, r, r, r"]),
    (&["neg", "abs"], of(Family::Arithmetic), &[
        ".{s16,s32,s64} t, t", ".{f32,f64} t, t", ".f16 h, h", ".ftz.f32 r, r", ".{f16x2,bf16,bf16x2} t, t"]),
    (&["copysign"], of(Family::Arithmetic), &[".{f32,f64} t, t, t"]),
    (&["sad"], of(Family::Arithmetic), &[".{u16,s16,u32,s32,u64,s64} t, t, t, t"]),
    (&["and", "or", "xor"], of(Family::Arithmetic), &[".{b16,b32,b64,pred} t, t, t"]),
    (&["not"], of(Family::Arithmetic), &[".{b16,b32,b64,pred} t, t"]),
    (&["cnot"], of(Family::Arithmetic), &[".{b16,b32,b64} t, t"]),
    (&["shl"], of(Family::Arithmetic), &[".{b16,b32,b64} t, t, r"]),
    (&["shr"], of(Family::Arithmetic), &[".{b16,u16,s16,b32,u32,s32,b64,u64,s64} t, t, r"]),
    (&["testp"], of(Family::Property), &[".{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64} p, t"]),
    (&["shf"], of(Family::Bits), &[".{l,r}.wrap.b32 r, r, r, r", ".{l,r}.clamp.b32 r, r, r, 5",
        ".{l,r}.clamp.b32 r, r, r, r"]),
    (&["popc", "clz"], of(Family::Bits), &[".{b32,b64} r, t"]),
    (&["brev"], of(Family::Bits), &[".{b32,b64} t, t"]),
    (&["bfind"], of(Family::Bits), &[".{u32,s32,u64,s64} r, t", ".shiftamt.{u32,s32,u64,s64} r, t"]),
    (&["bfe"], of(Family::Bits), &[".{u32,s32,u64,s64} t, t, 3, 5", ".{u32,s32,u64,s64} t, t, r, r"]),
    (&["bfi"], of(Family::Bits), &[".{b32,b64} t, t, t, 3, 5", ".{b32,b64} t, t, t, r, r"]),
    (&["prmt"], of(Family::Bits), &[".b32 r, r, r, r", ".b32.{f4e,b4e,rc8,ecl,ecr,rc16} r, r, r, r"]),
    (&["lop3"], of(Family::Bits), &[".b32 r, r, r, r, 0x96"]),
    (&["fns"], of(Family::Bits), &[".b32 r, r, r, r"]),
    (&["dp4a"], of(Family::Bits), &[".{u32,s32}.{u32,s32} r, r, r, r"]),
    (&["dp2a"], of(Family::Bits), &[".{lo,hi}.{u32,s32}.{u32,s32} r, r, r, r"]),
    (&["vadd2", "vsub2", "vabsdiff2", "vmin2", "vmax2", "vavrg2", "vadd4", "vsub4", "vabsdiff4", "vmin4", "vmax4",
       "vavrg4"], of(Family::Video), &[".{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add} r, r, r, r"]),
    (&["vset2", "vset4"], of(Family::Video), &[".{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge}{,.add} r, r, r, r"]),
    (&["ld"], of(Family::Memory), &[
        "{,.global,.shared,.const}{,.volatile}.{b8,u8,s8,b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64} t, [l]",
        ".global.v2.{b32,f32,b64} {t, t}, [l]", ".global{,.nc}.v4.{b32,f32} {t4}, [l]", ".shared.u32 r, [r]",
        ".{relaxed,acquire}.gpu.global.{b32,b64} t, [l]", ".global.{cg,cv}.b32 r, [l]"]),
    (&["ldu"], of(Family::Memory), &[".global.{b32,b64} t, [l]"]),
    (&["st"], of(Family::Memory).writes(Nothing), &[
        "{,.global,.shared}{,.volatile}.{b8,b16,b32,f32,b64,f64} [l], t", ".global.v2.{b32,f32,b64} [l], {t, t}",
        ".global.v4.{b32,f32} [l], {t4}", ".shared.u32 [r], r", ".{relaxed,release}.gpu.global.{b32,b64} [l], t"]),
    (&["atom"], of(Family::Memory), &[
        "{,.global,.shared}.{add.u32,add.u64,add.f32,add.f64,and.b32,or.b64,exch.b32,min.s32,max.u64} t, [l], t",
        ".global.{inc,dec}.u32 r, [l], r", ".global.cas.{b32,b64} t, [l], t, t",
        ".{acquire,release,acq_rel}.gpu.global.add.u32 r, [l], r", ".{cta,sys}.global.add.u32 r, [l], r",
        ".global.add.noftz.{f16,f16x2,bf16,bf16x2} t, [l], t", ".global.cas.b16 h, [l], h, h"]),
    (&["red"], of(Family::Memory).writes(Nothing), &[
        "{,.global,.shared}.{add.u32,add.u64,add.f32,and.b32,or.b64,min.s32,max.u64} [l], t",
        ".release.gpu.global.add.u32 [l], r"]),
    (&["cvta"], of(Family::Memory), &["{,.to}.{global,shared,const,local}.u64 l, l"]),
    (&["isspacep"], of(Family::Memory), &[".{global,shared,local} p, l", ".shared::{cta,cluster} p, l"]),
    (&["mapa"], of(Family::Memory), &[".shared::cluster.{u32,u64} t, t, r"]),
    (&["getctarank"], of(Family::Memory), &[".shared::cluster.{u32,u64} r, t"]),
    (&["bar", "barrier"], of(Family::Warp).collective().writes(With("red")), &[".sync{,.aligned} 0"]),
    (&["bar"], of(Family::Warp).collective().writes(With("red")), &[
        ".sync 1", ".sync r, r", ".arrive r, r", ".red.popc.u32 r, 0, p", ".red.{and,or}.pred p, 0, p",
        ".warp.sync r"]),
    (&["barrier"], of(Family::Warp).collective().writes(With("red")), &[".cluster.{arrive,wait}{,.aligned} "]),
    (&["shfl"], of(Family::Warp).collective(), &[
        ".sync.{idx,up,down,bfly}.b32 r|p, r, r, 31, r", ".{idx,up,down,bfly}.b32 r|p, r, r, 31"]),
    (&["vote"], of(Family::Warp).collective(), &[
        ".sync.{all,any,uni}.pred p, p, r", ".sync.ballot.b32 r, p, r", ".{all,any,uni}.pred p, p",
        ".ballot.b32 r, p"]),
    (&["match"], of(Family::Warp).collective(), &[".any.sync.{b32,b64} r, t, r", ".all.sync.{b32,b64} r|p, t, r"]),
    (&["redux"], of(Family::Warp).collective(), &[
        ".sync.{add,min,max}.{u32,s32} r, r, r", ".sync.{and,or,xor}.b32 r, r, r"]),
    (&["activemask"], of(Family::Warp).collective(), &[".b32 r"]),
    (&["elect"], of(Family::Warp).collective(), &[".sync r|p, r"]),
    (&["membar"], of(Family::Warp).collective(), &[".{cta,gl,sys} "]),
    (&["fence"], of(Family::Warp).collective(), &[".{sc,acq_rel}.{cta,cluster,gpu,sys} ", ".proxy.async "]),
    (&["mma"], of(Family::Matrix).collective(), &[
        ".sync.aligned.m16n8k16.row.col.f32.{f16.f16,bf16.bf16}.f32 {r4}, {r4}, {r, r}, {r4}",
        ".sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {r, r}, {r4}, {r, r}, {r, r}",
        ".sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {r4}, {r4}, {r, r}, {r4}",
        ".sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32 {r4}, {r4}, {r, r}, {r4}",
        ".sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32 {r4}, {r4}, {r, r}, {r4}",
        ".sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {l, l}, {l}, {l}, {l, l}"]),
    (&["ldmatrix"], of(Family::Matrix).collective(), &[
        ".sync.aligned.m8n8.x1{,.trans}{,.shared}.b16 {r}, [l]",
        ".sync.aligned.m8n8.x4{,.trans}{,.shared}.b16 {r4}, [l]"]),
    (&["stmatrix"], of(Family::Matrix).collective().writes(Nothing), &[
        ".sync.aligned.m8n8.x1{,.trans}.shared.b16 [l], {r}", ".sync.aligned.m8n8.x4{,.trans}.shared.b16 [l], {r4}"]),
    (&["wmma"], of(Family::Fragment).collective(), &[
        ".load.{a,b}.sync.aligned.{row,col}.m16n16k16{,.global,.shared}.f16 {r8}, [l], r",
        ".load.c.sync.aligned.{row,col}.m16n16k16.f32 {r8}, [l], r",
        ".store.d.sync.aligned.{row,col}.m16n16k16.f32 [l], {r8}, r",
        ".mma.sync.aligned.row.col.m16n16k16.f32.f32 {r8}, {r8}, {r8}, {r8}"]),
    (&["tex"], of(Family::Image).collective(), &[
        ".1d.v4.{f32,s32,u32}.{f32,s32} {r4}, [l, {r}]", ".2d.v4.f32.f32 {r4}, [l, {r, r}]",
        ".{3d,a2d}.v4.f32.f32 {r4}, [l, {r4}]", ".level.2d.v4.f32.f32 {r4}, [l, {r, r}], r"]),
    (&["tld4"], of(Family::Image).collective(), &[".{r,g,b,a}.2d.v4.f32.f32 {r4}, [l, {r, r}]"]),
    (&["suld"], of(Family::Image).memory(), &[".b.2d.{b8,b16,b32,b64}.{trap,clamp,zero} {t}, [l, {r, r}]"]),
    (&["sust"], of(Family::Image).memory().writes(Nothing), &[
        ".b.2d.{b8,b16,b32,b64}.{trap,clamp,zero} [l, {r, r}], {t}"]),
    (&["txq"], of(Family::Image), &[".{width,height,depth,array_size,num_mipmap_levels,normalized_coords}.b32 r, [l]"]),
    (&["suq"], of(Family::Image), &[".{width,height,depth,array_size}.b32 r, [l]"]),
    (&["mbarrier"], of(Family::MemoryBarrier).collective(), &[
        ".{init,expect_tx,complete_tx}.shared.b64 [l], r", ".inval.shared.b64 [l]",
        ".{arrive,arrive_drop}.shared.b64 l, [l]", ".arrive.expect_tx.shared.b64 l, [l], r", ".pending_count.b64 r, l",
        ".{test_wait,try_wait}.shared.b64 p, [l], l", ".{test_wait,try_wait}.parity.shared.b64 p, [l], r"]),
    (&["cp"], of(Family::Copy).collective().writes(Nothing), &[
        ".async.ca.shared.global [l], [l], 4", ".async.cg.shared.global [l], [l], 16, r",
        ".async.{commit_group,wait_all} ",
        ".async.wait_group 0", ".async.mbarrier.arrive{,.noinc}.shared.b64 [l]",
        ".async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [l], [l], r, [l]",
        ".async.bulk.global.shared::cta.bulk_group [l], [l], r", ".async.bulk.commit_group ",
        ".async.bulk.wait_group 0"]),
    (&["nanosleep"], of(Family::Sleep).collective().writes(Nothing), &[".u32 r"]),
    (&["brkpt"], of(Family::Hint).memory(), &[" "]),
    (&["applypriority"], of(Family::Hint).memory(), &[".global.L2::evict_normal [l], 128"]),
    (&["prefetch", "prefetchu"], of(Family::Hint).memory().writes(Nothing), &[".global.L1 [l]"]),
    (&["pmevent"], of(Family::Hint).memory().writes(Nothing), &[" 7"]),
    (&["griddepcontrol"], of(Family::Hint).collective().writes(Nothing), &[".{launch_dependents,wait} "]),
    (&["setmaxnreg"], of(Family::Hint).collective().writes(Nothing), &[".{inc,dec}.sync.aligned.u32 64"]),
    (&["wgmma"], of(Family::Other).collective().writes(With("mma_async")), &[".{fence,commit_group}.sync.aligned "]),
    (&["tcgen05"], of(Family::Other).collective().writes(With("ld")), &[".wait::ld.sync.aligned "]),
    (&["movmatrix"], of(Family::Other).collective(), &[".sync.aligned.m8n8.trans.b16 r, r"]),
    (&["clusterlaunchcontrol"], of(Family::Other).collective(), &[]),
    (&["tensormap", "multimem"], of(Family::Other).memory(), &[]),
    (&["alloca", "stacksave"], of(Family::Other).memory(), &[]),
    (&["sured", "discard"], of(Family::Other).memory().writes(Nothing), &[]),
    (&["stackrestore"], of(Family::Other).memory().writes(Nothing), &[]),
];

/// The row of an instruction.
pub fn row(name: &str) -> &'static Row {
    static ROWS: LazyLock<HashMap<&'static str, &'static Row>> = LazyLock::new(|| {
        INSTRUCTIONS.iter().flat_map(|(names, row, _)| names.iter().map(move |name| (*name, row))).collect()
    });
    ROWS.get(name).copied().unwrap_or(&UNKNOWN)
}

/// The bits of a special register, and whether it is the same whenever the thread looks; none for other names.
pub fn special_register(name: &str) -> Option<(u32, bool)> {
    let name = name.strip_prefix('%')?;
    if let Some((vector, axis)) = name.split_once('.') {
        let vectors = ["tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"];
        return (vectors.contains(&vector) && matches!(axis, "x" | "y" | "z" | "w")).then_some((32, axis != "w"));
    }
    let numbered = |prefix: &str| {
        let number = name.strip_prefix(prefix).map(|rest| rest.trim_end_matches("_64"));
        number.is_some_and(|it| matches!(it.len(), 1 | 2) && it.bytes().all(|digit| digit.is_ascii_digit()))
    };
    Some(match name {
        "laneid" | "nwarpid" | "nsmid" | "cluster_ctarank" | "cluster_nctarank" | "lanemask_eq" | "lanemask_le"
        | "lanemask_lt" | "lanemask_ge" | "lanemask_gt" => (32, true),
        "clock64" | "globaltimer" | "gridid" | "current_graph_exec" => (64, false),
        "is_explicit_cluster" => (1, false),
        "warpid" | "smid" | "clock" | "clock_hi" | "globaltimer_lo" | "globaltimer_hi" | "total_smem_size"
        | "aggr_smem_size" | "dynamic_smem_size" => (32, false),
        "reserved_smem_offset_begin" | "reserved_smem_offset_end" | "reserved_smem_offset_cap" => (32, false),
        _ if numbered("pm") => (if name.ends_with("_64") { 64 } else { 32 }, false),
        _ => return (numbered("envreg") || numbered("reserved_smem_offset_")).then_some((32, false)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_the_same_row_wherever_it_is_listed() {
        for (names, own, _) in INSTRUCTIONS {
            for name in *names {
                assert_eq!(row(name), own, "{name}");
            }
        }
    }
}
