//! Tests that compare inline PTX on the CPU with the same computation in Rust.

use crate::cpu::tests::run::{Parameters, Program};
use crate::cpu::tests::{device_ir_of, object, table};

/// Compiles a kernel `run(const In *in, Out *out)` of one thread per element, runs it, and returns the outputs.
fn run<In: Copy, Out: Copy + Default>(cuda: &str, input: &[In]) -> Vec<Out> {
    let object = object(&device_ir_of(cuda), "default<O1>");
    assert_eq!(table(&object).refused, []);
    let mut input = input.to_vec();
    assert_eq!(input.len() % 32, 0, "whole warps");
    let mut output = vec![Out::default(); input.len()];
    let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
    Program::link(&object).launch("run", input.len() as u32 / 32, 32, parameters.get());
    output
}

/// Words with many patterns: corner cases first, then a multiplicative sequence.
fn words() -> Vec<u32> {
    let corners = [0, 1, 2, 31, 32, 33, 63, 255, 256, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_ffff, 0xffff_fffe];
    let rest = (1u32..).map(|i| i.wrapping_mul(0x9e37_79b9).rotate_left(i % 32));
    corners.into_iter().chain(rest).take(96).collect()
}

#[test]
fn wide_products_carry_through_the_chain() {
    let triples: Vec<[u64; 2]> = words()
        .windows(4)
        .map(|w| [u64::from(w[0]) << 32 | u64::from(w[1]), u64::from(w[2]) << 32 | u64::from(w[3])])
        .take(64)
        .collect();
    let products: Vec<[u64; 2]> = run(
        r#"struct alignas(16) Pair { unsigned long long a, b; };
        extern "C" __global__ void run(const Pair *in, Pair *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            unsigned long long low, high;
            asm("{\n\t"
                ".reg .u32 r0, r1, r2, r3, alo, ahi, blo, bhi;\n\t"
                "mov.b64 {alo,ahi}, %2;\n\t mov.b64 {blo,bhi}, %3;\n\t"
                "mul.lo.u32 r0, alo, blo; mul.hi.u32 r1, alo, blo;\n\t"
                "mad.lo.cc.u32 r1, alo, bhi, r1; madc.hi.u32 r2, alo, bhi, 0;\n\t"
                "mad.lo.cc.u32 r1, ahi, blo, r1; madc.hi.cc.u32 r2, ahi, blo, r2; madc.hi.u32 r3, ahi, bhi, 0;\n\t"
                "mad.lo.cc.u32 r2, ahi, bhi, r2; addc.u32 r3, r3, 0;\n\t"
                "mov.b64 %0, {r0,r1}; mov.b64 %1, {r2,r3};\n\t}"
                : "=l"(low), "=l"(high) : "l"(in[i].a), "l"(in[i].b));
            out[i] = Pair{low, high};
        }"#,
        &triples,
    );
    for ([a, b], [low, high]) in triples.iter().zip(products) {
        assert_eq!(u128::from(high) << 64 | u128::from(low), u128::from(*a) * u128::from(*b), "{a:#x} {b:#x}");
    }
}

/// nvcc's division of 128 bits relies on this.
#[test]
fn the_flag_of_a_difference_says_that_nothing_is_borrowed() {
    let pairs: Vec<[u32; 2]> = words().windows(2).map(|w| [w[0], w[1]]).take(64).collect();
    let results: Vec<[u32; 2]> = run(
        r#"struct In { unsigned a, b; }; struct Out { unsigned v[2]; };
        extern "C" __global__ void run(const In *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            unsigned a = in[i].a, b = in[i].b, *v = out[i].v;
            asm("{ .reg .u32 t; sub.cc.u32 t, %1, %2; addc.u32 %0, 0, 0; }" : "=r"(v[0]) : "r"(a), "r"(b));
            asm("{ .reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, 0, 0; }" : "=r"(v[1]) : "r"(a), "r"(b));
        }"#,
        &pairs,
    );
    for ([a, b], result) in pairs.into_iter().zip(results) {
        assert_eq!(result, [u32::from(a >= b), 0u32.wrapping_sub(u32::from(a < b))], "{a:#x} {b:#x}");
    }
}

#[test]
fn bit_fields_shifts_and_logic() {
    let pairs: Vec<[u32; 2]> = words().windows(2).map(|w| [w[0], w[1]]).take(64).collect();
    let results: Vec<[u32; 8]> = run(
        r#"struct In { unsigned a, b; }; struct Out { unsigned v[8]; };
        extern "C" __global__ void run(const In *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            unsigned a = in[i].a, b = in[i].b, *v = out[i].v;
            asm("shf.l.wrap.b32 %0, %1, %2, %2;" : "=r"(v[0]) : "r"(a), "r"(b));
            asm("shf.r.clamp.b32 %0, %1, %2, %1;" : "=r"(v[1]) : "r"(a), "r"(b));
            asm("bfe.s32 %0, %1, 5, 9;" : "=r"(v[2]) : "r"(a));
            asm("bfi.b32 %0, %1, %2, 7, 11;" : "=r"(v[3]) : "r"(a), "r"(b));
            asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(v[4]) : "r"(a), "r"(b), "r"(0x0f0f3355));
            asm("bfind.shiftamt.u32 %0, %1;" : "=r"(v[5]) : "r"(a));
            asm("{ .reg .pred p; setp.lt.s32 p, %1, %2; mov.u32 %0, 7; @p add.u32 %0, %1, 1; @!p shl.b32 %0, %0, %1; }"
                : "=&r"(v[6]) : "r"(a), "r"(b));
            asm("vabsdiff4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(v[7]) : "r"(a), "r"(b), "r"(0));
        }"#,
        &pairs,
    );
    for ([a, b], result) in pairs.into_iter().zip(results) {
        let both = u64::from(b) << 32 | u64::from(a);
        let bytes = |x: u32| x.to_le_bytes();
        let differences: Vec<u8> = bytes(a).iter().zip(bytes(b)).map(|(x, y)| x.abs_diff(y)).collect();
        let expected = [
            ((both << (b & 31)) >> 32) as u32,
            (both >> a.min(32)) as u32,
            ((a << 18) as i32 >> 23) as u32,
            (b & !(0x7ff << 7)) | (a & 0x7ff) << 7,
            (a & b) | (a & 0x0f0f_3355) | (b & 0x0f0f_3355),
            if a == 0 { u32::MAX } else { a.leading_zeros() },
            if (a as i32) < b as i32 { a.wrapping_add(1) } else { 7u32.checked_shl(a).unwrap_or(0) },
            u32::from_le_bytes(differences.try_into().unwrap()),
        ];
        assert_eq!(result, expected, "{a:#x} {b:#x}");
    }
}

/// `.ftz` and `.sat` of conversions and selections follow the manual.
#[test]
fn conversions_and_selections_flush_and_saturate() {
    let corners = [0x007f_ffffu32, 0x807f_ffff, 1, 0x8000_0001, 0x3f80_0000, 0xbf00_0000, 0x7fc0_0000, 0x0080_0000];
    let words: Vec<u32> = corners.into_iter().chain(words()).take(96).collect();
    let results: Vec<[i32; 6]> = run(
        r#"struct Out { int v[6]; };
        extern "C" __global__ void run(const unsigned *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x, *v = out[i].v;
            float x = __int_as_float(in[i]);
            asm("cvt.rpi.ftz.s32.f32 %0, %1;" : "=r"(v[0]) : "f"(x));
            asm("cvt.rmi.ftz.s32.f32 %0, %1;" : "=r"(v[1]) : "f"(x));
            asm("cvt.rpi.s32.f32 %0, %1;" : "=r"(v[2]) : "f"(x));
            asm("slct.ftz.s32.f32 %0, 1, 2, %1;" : "=r"(v[3]) : "f"(x));
            asm("slct.s32.f32 %0, 1, 2, %1;" : "=r"(v[4]) : "f"(x));
            float y;
            asm("cvt.rn.sat.f32.s32 %0, %1;" : "=f"(y) : "r"(in[i]));
            v[5] = __float_as_int(y);
        }"#,
        &words,
    );
    for (word, result) in words.into_iter().zip(results) {
        let value = f32::from_bits(word);
        let flushed = if value.is_subnormal() { 0.0f32.copysign(value) } else { value };
        let first = |value: f32| if value >= 0.0 { 1 } else { 2 };
        let expected = [
            flushed.ceil() as i32,
            flushed.floor() as i32,
            value.ceil() as i32,
            first(flushed),
            first(value),
            if word as i32 > 0 { 1.0f32.to_bits() as i32 } else { 0 },
        ];
        assert_eq!(result, expected, "{word:#x}");
    }
}

#[test]
fn the_number_of_a_set_bit_counts_from_a_base() {
    let cases: Vec<[u32; 3]> =
        (0..96u32).map(|i| [0x9e37_79b9u32.wrapping_mul(i + 1), i % 32, (i as i32 % 23 - 11) as u32]).collect();
    let results: Vec<u32> = run(
        r#"struct In { unsigned mask, base, offset; };
        extern "C" __global__ void run(const In *in, unsigned *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            out[i] = __fns(in[i].mask, in[i].base, (int)in[i].offset);
        }"#,
        &cases,
    );
    for ([mask, base, offset], result) in cases.into_iter().zip(results) {
        let is_set = |place: &i32| mask >> place & 1 == 1;
        let (base, offset) = (base as i32, offset as i32);
        let number = (offset.unsigned_abs() as usize).saturating_sub(1);
        let found = match offset {
            0 => Some(base).filter(is_set),
            1.. => (base..32).filter(is_set).nth(number),
            _ => (0..=base).rev().filter(is_set).nth(number),
        };
        assert_eq!(result, found.map_or(u32::MAX, |place| place as u32), "{mask:#x} {base} {offset}");
    }
}

#[test]
fn address_spaces_are_told_apart() {
    let results: Vec<[u32; 3]> = run(
        r#"struct Out { unsigned v[3]; };
        __device__ unsigned spaces(const void *p) {
            unsigned g, s, l;
            asm volatile("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(g) : "l"(p));
            asm volatile("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(s) : "l"(p));
            asm volatile("{ .reg .pred p; isspacep.local p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(l) : "l"(p));
            return g * 100 + s * 10 + l;
        }
        extern "C" __global__ void run(const unsigned *in, Out *out) {
            __shared__ unsigned shared;
            unsigned own[4] = {in[0]}, *v = out[blockIdx.x * 32 + threadIdx.x].v;
            asm volatile("" :: "l"(own) : "memory");
            v[0] = spaces(in); v[1] = spaces(&shared); v[2] = spaces(&own[in[0] & 3]);
        }"#,
        &[0u32; 32],
    );
    assert!(results.iter().all(|spaces| *spaces == [100, 10, 1]), "{:?}", results[0]);
}

/// The PTX of nvcc's `__syncthreads_count` and similar functions, and of `cooperative_groups::invoke_one`.
#[test]
fn threads_vote_at_barriers_and_elect_one() {
    let results: Vec<[u32; 5]> = run(
        r#"struct Out { unsigned v[5]; };
        extern "C" __global__ void run(const unsigned *in, Out *out) {
            unsigned x = in[threadIdx.x], *v = out[threadIdx.x].v;
            asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; barrier.red.popc.u32 %0, 0, p; }" : "=r"(v[0]) : "r"(x) : "memory");
            asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.and.pred q, 0, p; selp.u32 %0, 1, 0, q; }" : "=r"(v[1]) : "r"(x) : "memory");
            asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.cta.red.or.aligned.pred q, 0, 32, !p; selp.u32 %0, 1, 0, q; }" : "=r"(v[2]) : "r"(x) : "memory");
            asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffff00; selp.u32 %1, 1, 0, p; }" : "=r"(v[3]), "=r"(v[4]) :: "memory");
        }"#,
        &(0..32u32).map(|thread| u32::from(thread % 3 == 0)).collect::<Vec<_>>(),
    );
    for (thread, result) in results.into_iter().enumerate() {
        assert_eq!(result, [11, 0, 1, 8, u32::from(thread == 8)], "{thread}");
    }
}

/// The value of a 16-bit float with this number of explicit mantissa bits.
fn decode(bits: u16, mantissa: u32, bias: i32) -> f64 {
    let exponent = i32::from(bits & 0x7fff) >> mantissa;
    let fraction = f64::from(bits & ((1 << mantissa) - 1)) / f64::from(1u32 << mantissa);
    let magnitude = if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else if exponent == (0x7fff >> mantissa) {
        if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    };
    if bits & 0x8000 != 0 { -magnitude } else { magnitude }
}

/// Rounds by a search among all values: mode 0 nearest even, 1 toward zero, 2 down, 3 up.
fn encode(value: f64, mantissa: u32, bias: i32, mode: u32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    let infinity = (0x7fff >> mantissa << mantissa) as u16;
    // The largest value that does not exceed the magnitude.
    let (mut low, mut high) = (0u16, infinity);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if decode(middle, mantissa, bias) <= magnitude { low = middle } else { high = middle }
    }
    if magnitude == f64::INFINITY {
        return sign | infinity;
    }
    let below = decode(low, mantissa, bias);
    let above = if high == infinity {
        // The next value, as if the exponent range continued.
        below + (below - decode(low - 1, mantissa, bias))
    } else {
        decode(high, mantissa, bias)
    };
    let up = match (mode, magnitude == below) {
        (_, true) | (1, _) => false,
        (0, _) => {
            let (down, up) = (magnitude - below, above - magnitude);
            up < down || up == down && low & 1 == 1
        }
        (2, _) => sign != 0,
        _ => sign == 0,
    };
    sign | if up { high } else { low }
}

#[test]
fn half_precision_headers_round_as_defined() {
    let mut floats: Vec<f32> = words().into_iter().map(f32::from_bits).collect();
    floats.extend((0..96).map(|i| (f32::from(i as u16) - 40.0) * 1.7e-6));
    floats.extend((0..96).map(|i| 65500.0 + f32::from(i as u16)));
    floats.extend((0..96).map(|i| -1.0 - f32::from(i as u16) / 2048.0));
    let results: Vec<[u16; 8]> = run(
        r#"
        #include <cuda_fp16.h>
        #include <cuda_bf16.h>
        struct Out { unsigned short v[8]; };
        extern "C" __global__ void run(const float *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            float x = in[i];
            unsigned short *v = out[i].v;
            v[0] = __half_as_ushort(__float2half_rn(x));
            v[1] = __half_as_ushort(__float2half_rz(x));
            v[2] = __half_as_ushort(__float2half_rd(x));
            v[3] = __half_as_ushort(__float2half_ru(x));
            v[4] = __bfloat16_as_ushort(__float2bfloat16_rn(x));
            v[5] = __bfloat16_as_ushort(__float2bfloat16_ru(x));
            __half h = __float2half_rn(x);
            v[6] = __half_as_ushort(__hfma(h, __float2half_rn(1.3f), __float2half_rn(-0.37f)));
            v[7] = __half_as_ushort(__high2half(__hadd2(__halves2half2(h, h), __float2half2_rn(0.1f))));
        }"#,
        &floats,
    );
    for (x, result) in floats.iter().zip(results) {
        let wide = f64::from(*x);
        let half = |value: f64, mode| encode(value, 10, 15, mode);
        let of = |bits| decode(bits, 10, 15);
        let h = of(half(wide, 0));
        let expected = [
            half(wide, 0),
            half(wide, 1),
            half(wide, 2),
            half(wide, 3),
            encode(wide, 7, 127, 0),
            encode(wide, 7, 127, 3),
            half(h.mul_add(of(half(f64::from(1.3f32), 0)), of(half(f64::from(-0.37f32), 0))), 0),
            half(h + of(half(f64::from(0.1f32), 0)), 0),
        ];
        assert_eq!(result, expected, "{x:e}");
    }
}

/// The value of an 8-bit float. `e4m3` has no infinity.
fn decode_quarter(bits: u8, e4m3: bool) -> f64 {
    let (mantissa, bias) = if e4m3 { (3, 7) } else { (2, 15) };
    let (field, fraction) = (i32::from(bits & 0x7f) >> mantissa, f64::from(bits & ((1 << mantissa) - 1)));
    let fraction = fraction / f64::from(1u32 << mantissa);
    let magnitude = match (bits & 0x7f, e4m3) {
        (0x7f, _) | (0x7d.., false) => f64::NAN,
        (0x7c, false) => f64::INFINITY,
        _ if field == 0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(field - bias),
    };
    if bits & 0x80 != 0 { -magnitude } else { magnitude }
}

/// The nearest code, by a search among all codes, the even one of two. Larger numbers become the largest code.
fn encode_quarter(value: f64, e4m3: bool, relu: bool) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    if relu && value.is_sign_negative() {
        return 0;
    }
    let greatest = if e4m3 { 0x7e } else { 0x7b };
    let distance = |code: &u8| (decode_quarter(*code, e4m3) - value.abs().min(1e6)).abs();
    let nearest = (0..=greatest)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))))
        .expect("there are codes");
    sign | nearest
}

/// Tests every code, every half, and floats around every code and halfway between codes.
#[test]
fn floats_of_eight_bits_convert_as_defined() {
    let codes: Vec<u32> = (0..=255).collect();
    let widened: Vec<[u32; 4]> = run(
        r#"struct Out { unsigned v[4]; };
        extern "C" __global__ void run(const unsigned *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            unsigned short pair = in[i] | (255 - in[i]) << 8;
            unsigned *v = out[i].v;
            asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(v[0]) : "h"(pair));
            asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(v[1]) : "h"(pair));
            asm("cvt.rn.relu.f16x2.e4m3x2 %0, %1;" : "=r"(v[2]) : "h"(pair));
            asm("cvt.rn.relu.f16x2.e5m2x2 %0, %1;" : "=r"(v[3]) : "h"(pair));
        }"#,
        &codes,
    );
    for (code, result) in codes.iter().zip(widened) {
        let half = |code: u32, e4m3: bool, relu: bool| {
            let value = decode_quarter(code as u8, e4m3);
            u32::from(if relu && code & 0x80 != 0 && !value.is_nan() { 0 } else { encode(value, 10, 15, 0) })
        };
        let pair = |e4m3, relu| half(*code, e4m3, relu) | half(255 - *code, e4m3, relu) << 16;
        assert_eq!(result, [pair(true, false), pair(false, false), pair(true, true), pair(false, true)], "{code:#x}");
    }

    let halves: Vec<u32> = (0..=u32::from(u16::MAX)).collect();
    let narrowed: Vec<[u16; 4]> = run(
        r#"struct Out { unsigned short v[4]; };
        extern "C" __global__ void run(const unsigned *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            unsigned pair = in[i] | (in[i] ^ 0x8000) << 16;
            unsigned short *v = out[i].v;
            asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(v[0]) : "r"(pair));
            asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(v[1]) : "r"(pair));
            asm("cvt.rn.satfinite.relu.e4m3x2.f16x2 %0, %1;" : "=h"(v[2]) : "r"(pair));
            asm("cvt.rn.satfinite.relu.e5m2x2.f16x2 %0, %1;" : "=h"(v[3]) : "r"(pair));
        }"#,
        &halves,
    );
    for (half, result) in halves.iter().zip(narrowed) {
        let pair = |e4m3, relu| {
            let of = |bits: u32| u16::from(encode_quarter(decode(bits as u16, 10, 15), e4m3, relu));
            of(*half) | of(half ^ 0x8000) << 8
        };
        assert_eq!(result, [pair(true, false), pair(false, false), pair(true, true), pair(false, true)], "{half:#x}");
    }

    let mut floats: Vec<f32> = words().into_iter().map(f32::from_bits).collect();
    for (code, e4m3) in (0..=255u8).flat_map(|code| [(code, true), (code, false)]) {
        let value = decode_quarter(code, e4m3) as f32;
        let half = (value + decode_quarter(code.wrapping_add(1), e4m3) as f32) / 2.0;
        let near =
            |x: f32| [x, f32::from_bits(x.to_bits().wrapping_add(1)), f32::from_bits(x.to_bits().wrapping_sub(1))];
        floats.extend(near(value).into_iter().chain(near(half)));
    }
    floats.resize(floats.len().next_multiple_of(32), f32::INFINITY);
    let narrowed: Vec<[u16; 4]> = run(
        r#"struct Out { unsigned short v[4]; };
        extern "C" __global__ void run(const float *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            float x = in[i], y = -x;
            unsigned short *v = out[i].v;
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(v[0]) : "f"(x), "f"(y));
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %2, %1;" : "=h"(v[1]) : "f"(x), "f"(y));
            asm("cvt.rn.satfinite.relu.e4m3x2.f32 %0, %2, %1;" : "=h"(v[2]) : "f"(x), "f"(y));
            asm("cvt.rn.satfinite.relu.e5m2x2.f32 %0, %2, %1;" : "=h"(v[3]) : "f"(x), "f"(y));
        }"#,
        &floats,
    );
    for (x, result) in floats.iter().zip(narrowed) {
        let pair = |e4m3, relu| {
            let of = |x: f32| u16::from(encode_quarter(f64::from(x), e4m3, relu));
            of(*x) | of(-*x) << 8
        };
        assert_eq!(result, [pair(true, false), pair(false, false), pair(true, true), pair(false, true)], "{x:e}");
    }
}

#[test]
fn floats_lose_thirteen_bits_as_tf32() {
    let mut floats: Vec<u32> = words();
    floats.extend([
        0x3f80_0fff, 0x3f80_1000, 0x3f80_1001, 0x3f80_3000, 0x7f7f_ffff, 0x7f80_0000, 0x7f80_0001, 0xffff_ffff,
    ]);
    floats.extend((0..24).map(|i| 0xbf80_0000 + (i << 11)));
    let results: Vec<[u32; 3]> = run(
        r#"struct Out { unsigned v[3]; };
        extern "C" __global__ void run(const float *in, Out *out) {
            int i = blockIdx.x * 32 + threadIdx.x;
            unsigned *v = out[i].v;
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(v[0]) : "f"(in[i]));
            asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(v[1]) : "f"(in[i]));
            asm("cvt.rz.tf32.f32 %0, %1;" : "=r"(v[2]) : "f"(in[i]));
        }"#,
        &floats,
    );
    for (bits, result) in floats.iter().zip(results) {
        let (kept, lost) = (bits & !0x1fff, bits & 0x1fff);
        let expected = match (f32::from_bits(*bits).is_nan(), kept + 0x2000) {
            (true, _) => [0x7fff_ffff; 3],
            (false, above) => [
                if lost >= 0x1000 { above } else { kept },
                if lost > 0x1000 || lost == 0x1000 && kept & 0x2000 != 0 { above } else { kept },
                kept,
            ],
        };
        assert_eq!(result, expected, "{bits:#x}");
    }
}

/// One thread arrives for all.
#[test]
fn a_barrier_counts_arrivals_and_bytes() {
    let counts: Vec<[u32; 8]> = run(
        r#"struct Out { unsigned v[8]; };
        __device__ bool left(unsigned at, unsigned parity) {
            unsigned done;
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2, 20;\n\t"
                         "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(parity) : "memory");
            return done;
        }
        extern "C" __global__ void run(const unsigned *in, Out *out) {
            __shared__ __align__(8) unsigned long long all[32];
            unsigned long long *own = &all[threadIdx.x], first, state;
            unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(own)), count, still;
            unsigned *v = out[blockIdx.x * 32 + threadIdx.x].v;
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 3;" :: "r"(at) : "memory");
            asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(first) : "r"(at) : "memory");
            asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(first));
            v[0] = count * 10 + left(at, 0);
            asm volatile("mbarrier.arrive_drop.b64 %0, [%1];" : "=l"(state) : "l"(own) : "memory");
            asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(in[0] & 63) : "memory");
            v[1] = left(at, 0) * 10 + left(at, 1);
            asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(in[0] & 63) : "memory");
            v[2] = left(at, 0) * 10 + left(at, 1);
            asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(still) : "r"(at), "l"(state) : "memory");
            v[3] = still;
            asm volatile("mbarrier.arrive.noComplete.release.cta.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(at) : "memory");
            asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
            v[4] = count;
            asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0]; cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at) : "memory");
            v[5] = left(at, 1) * 10 + left(at, 0);
            asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at) : "memory");
            v[6] = *own;
            v[7] = 0;
        }"#,
        &[40u32; 32],
    );
    // Three threads arrive in the first phase, two in the second.
    assert!(counts.iter().all(|counts| *counts == [30, 1, 10, 1, 2, 10, 0, 0]), "{:?}", counts[0]);
}

/// The tests' device prints the arguments of its calls.
#[test]
fn textures_and_surfaces_are_asked_for_what_the_instruction_says() {
    #[derive(Clone, Copy, Default)]
    #[repr(C)]
    struct Told {
        textures: [[u32; 4]; 8],
        loads: [[u32; 4]; 3],
        stores: [[u32; 8]; 2],
        queries: [u32; 4],
    }
    let told: Vec<Told> = run(
        r#"struct Out { uint4 textures[8]; uint4 loads[3]; unsigned stores[2][8], queries[4]; };
        #define TEX(opcode, at, more, ...) { uint4 &v = out->textures[n++]; \
            asm volatile(opcode " {%0, %1, %2, %3}, [%4, " at "]" more ";" \
                : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(1000ll), __VA_ARGS__); }
        extern "C" __global__ void run(const unsigned *in, Out *all) {
            Out *out = all + blockIdx.x * 32 + threadIdx.x;
            int n = 0, one = in[0];
            float x = __int_as_float(7), y = __int_as_float(8), z = __int_as_float(9);
            TEX("tex.1d.v4.u32.s32", "{%5}", "", "r"(7))
            TEX("tex.2d.v4.u32.f32", "{%5, %6}", "", "f"(x), "f"(y))
            TEX("tex.3d.v4.u32.f32", "{%5, %6, %7, %7}", "", "f"(x), "f"(y), "f"(z))
            TEX("tex.a1d.v4.u32.f32", "{%5, %6}", "", "r"(one), "f"(x))
            TEX("tex.level.a2d.v4.u32.f32", "{%5, %6, %7, %7}", ", %7", "r"(one), "f"(x), "f"(y))
            TEX("tex.grad.2d.v4.u32.f32", "{%5, %6}", ", {%5, %6}, {%6, %5}", "f"(x), "f"(y))
            TEX("tex.acube.v4.u32.f32", "{%5, %6, %7, %8}", "", "r"(one), "f"(x), "f"(y), "f"(z))
            TEX("tld4.b.2d.v4.u32.f32", "{%5, %6}", "", "f"(x), "f"(y))
            short a, b; long long c, d;
            uint4 &first = out->loads[0], &second = out->loads[1], &third = out->loads[2];
            asm volatile("suld.b.1d.v4.b32.trap {%0, %1, %2, %3}, [%4, {%5}];"
                : "=r"(first.x), "=r"(first.y), "=r"(first.z), "=r"(first.w) : "l"(0ll), "r"(1));
            asm volatile("suld.b.a2d.v2.b8.clamp {%0, %1}, [%2, {%3, %4, %5, %5}];"
                : "=h"(a), "=h"(b) : "l"(0ll), "r"(one), "r"(1), "r"(0));
            second = make_uint4(a, b, 0, 0);
            asm volatile("suld.b.3d.cv.v2.b64.zero {%0, %1}, [%2, {%3, %4, %5, %5}];"
                : "=l"(c), "=l"(d) : "l"(0ll), "r"(2), "r"(0), "r"(1));
            third = make_uint4(c, c >> 32, d, d >> 32);
            asm volatile("sust.b.a1d.v2.b16.zero [%0, {%1, %2}], {%3, %4};"
                :: "l"(out->stores[0]), "r"(one), "r"(4), "h"(short(0x1234)), "h"(short(0x5678)) : "memory");
            asm volatile("sust.b.3d.v4.b32.trap [%0, {%1, %2, %3, %3}], {%4, %5, %6, %7};"
                :: "l"(out->stores[1]), "r"(4), "r"(5), "r"(6), "r"(1), "r"(2), "r"(3), "r"(4) : "memory");
            asm volatile("txq.width.b32 %0, [%1];" : "=r"(out->queries[0]) : "l"(3ll));
            asm volatile("txq.normalized_coords.b32 %0, [%1];" : "=r"(out->queries[1]) : "l"(3ll));
            asm volatile("suq.height.b32 %0, [%1];" : "=r"(out->queries[2]) : "l"(3ll));
            asm volatile("txq.level.array_size.b32 %0, [%1], 0;" : "=r"(out->queries[3]) : "l"(3ll));
        }"#,
        &[5u32; 32],
    );
    let told = told[31];
    let floats = 1 << 8;
    assert_eq!(
        told.textures,
        [
            [0, 0, 7, 1000],
            [1 | floats, 0, 7, 1800],
            [2 | floats, 0, 7, 1809],
            [3 | floats, 5, 7, 1000],
            [4 | floats, 5, 7, 1800],
            [1 | floats, 0, 7, 1800],
            [6 | floats, 5, 7, 1809],
            [1 | floats | 3 << 16, 0, 7, 1800],
        ]
    );
    let bytes = |first: u8| {
        [0, 1, 2, 3].map(|word| u32::from_le_bytes([0, 1, 2, 3].map(|byte| (word * 4 + byte) * 10 + first)))
    };
    assert_eq!(told.loads, [bytes(1), [7, 17, 0, 0], bytes(5)]);
    let of_bytes = |bytes: u32| bytes << 8;
    assert_eq!(told.stores[0][..5], [3 | of_bytes(4) | 2 << 16, 5, 4, 0, 0x5678_1234]);
    assert_eq!(told.stores[1], [2 | of_bytes(16), 0, 4, 506, 1, 2, 3, 4]);
    assert_eq!(told.queries, [2563, 2613, 13, 2593]);
}

#[test]
fn what_has_no_translation_is_refused_by_name() {
    let object = object(
        &device_ir_of(
            r#"
            __device__ void deep(int *p) { asm volatile("multimem.red.global.add.u32 [%0], 1;" :: "l"(p) : "memory"); }
            extern "C" __global__ void bad(int *p) { deep(p); }
            extern "C" __global__ void bits(int *p) {
                asm volatile("wmma.load.a.sync.aligned.row.m8n8k128.b1 {%0}, [%1];" : "=r"(*p) : "l"(p + 32));
            }
            extern "C" __global__ void good(int *p) { *p = 1; }
            "#,
        ),
        "default<O0>",
    );
    let table = table(&object);
    assert_eq!(table.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["good"]);
    let reason = |name: &str| table.refused.iter().find(|row| row.kernel == name).unwrap().reason.clone();
    assert_eq!(reason("bad"), "inline PTX `multimem.red.global.add.u32 [$0], 1`");
    assert_eq!(reason("bits"), "tensor cores: `wmma.load.a.sync.aligned.row.m8n8k128.b1 {$0}, [$1]`");
}
