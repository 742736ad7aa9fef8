//! Tests of inline PTX against the same computation in Rust, on the CPU.

use crate::cpu::tests::run::{Parameters, Program};
use crate::cpu::tests::{device_ir_of, object, table};

/// Compiles a kernel `run(const In *in, Out *out)` of one thread per element, runs it, and gives the outputs.
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

/// Words with many patterns: corners first, then a multiplicative sequence.
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

/// As nvcc's division of 128 bits reads it.
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

/// The value of a 16-bit float with so many explicit mantissa bits.
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

/// Rounds by search among all values: mode 0 nearest even, 1 toward zero, 2 down, 3 up.
fn encode(value: f64, mantissa: u32, bias: i32, mode: u32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    let infinity = (0x7fff >> mantissa << mantissa) as u16;
    // The greatest value that is not above the magnitude.
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
        // As if the exponent went on.
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

#[test]
fn what_has_no_translation_is_refused_by_name() {
    let object = object(
        &device_ir_of(
            r#"
            __device__ void deep(int *p) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "l"(p) : "memory"); }
            extern "C" __global__ void bad(int *p) { deep(p); }
            extern "C" __global__ void allocates(int **p) { *p = (int *)malloc(4); }
            extern "C" __global__ void good(int *p) { *p = 1; }
            "#,
        ),
        "default<O0>",
    );
    let table = table(&object);
    assert_eq!(table.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["good"]);
    let reason = |name: &str| table.refused.iter().find(|row| row.kernel == name).unwrap().reason.clone();
    assert_eq!(reason("bad"), "inline PTX `mbarrier.init.shared.b64 [$0], 1`");
    assert_eq!(reason("allocates"), "device-side `malloc`");
}
