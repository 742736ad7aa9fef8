//! Tests that compare the intrinsics' arithmetic with exact arithmetic.
//!
//! Some inputs would trap on x86.

use super::run::{Parameters, Program};
use super::{amdgcn, device_ir_of, object, object_of_text, table};

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Rounded {
    from_long: [f32; 4],
    narrowed: [f32; 4],
    sum: [f64; 4],
    to_int: [i32; 4],
    to_ulong: [u64; 4],
}

#[test]
fn directed_rounding_brackets_the_exact_value() {
    let object = object(
        &device_ir_of(
            r#"
            struct Out { float from_long[4], narrowed[4]; double sum[4]; int to_int[4]; unsigned long long to_ulong[4]; };
            extern "C" __global__ void run(const long long *in, Out *out) {
                int i = blockIdx.x * 32 + threadIdx.x;
                long long n = in[i];
                double e = n * 0x1.7p-40;
                Out &o = out[i];
                o.from_long[0] = __ll2float_rn(n); o.from_long[1] = __ll2float_rz(n);
                o.from_long[2] = __ll2float_rd(n); o.from_long[3] = __ll2float_ru(n);
                o.narrowed[0] = __double2float_rn(e); o.narrowed[1] = __double2float_rz(e);
                o.narrowed[2] = __double2float_rd(e); o.narrowed[3] = __double2float_ru(e);
                o.sum[0] = __dadd_rn(e, 0.1); o.sum[1] = __dadd_rz(e, 0.1);
                o.sum[2] = __dadd_rd(e, 0.1); o.sum[3] = __dadd_ru(e, 0.1);
                o.to_int[0] = __float2int_rn((float)e); o.to_int[1] = __float2int_rz((float)e);
                o.to_int[2] = __float2int_rd((float)e); o.to_int[3] = __float2int_ru((float)e);
                o.to_ulong[0] = __double2ull_rn(e); o.to_ulong[1] = __double2ull_rz(e);
                o.to_ulong[2] = __double2ull_rd(e); o.to_ulong[3] = __double2ull_ru(e);
            }"#,
        ),
        // LLVM 19's instcombine turns `ll2f.rz` into `sitofp`, on the GPU as well.
        "default<O0>",
    );
    let mut input: Vec<i64> = vec![0, 1, -1, i64::MAX, i64::MIN, i64::MAX - 1, 1 << 24, (1 << 24) + 1, -(1 << 53) - 1];
    input.extend((1i64..).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64) >> (i % 60)).take(119));
    let mut output = vec![Rounded::default(); 128];
    let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
    Program::link(&object).launch("run", 4, 32, parameters.get());
    for (n, r) in input.iter().zip(&output) {
        let e = *n as f64 * (f64::from(0x17) / 16.0 * 2f64.powi(-40));
        // Rounding down and up gives the neighbours of the value, or the value itself. Nearest and zero are one of
        // them.
        let exact = |x: f32| i128::from(*n).cmp(&(f64::from(x) as i128));
        let [nearest, zero, down, up] = r.from_long;
        assert!(exact(down).is_ge() && exact(up).is_le() && (down == up || down.next_up() == up), "{n}");
        assert_eq!(nearest, *n as f32, "{n}");
        assert_eq!(zero, if *n < 0 { up } else { down }, "{n}");

        let [nearest, zero, down, up] = r.narrowed;
        assert!(f64::from(down) <= e && e <= f64::from(up) && (down == up || down.next_up() == up), "{e:e}");
        assert_eq!(nearest, e as f32);
        assert_eq!(zero, if e < 0.0 { up } else { down });

        let [nearest, zero, down, up] = r.sum;
        assert_eq!(nearest, e + 0.1);
        assert!((down == up || down.next_up() == up) && (nearest == down || nearest == up), "{e:e}");
        assert_eq!(zero, if e + 0.1 < 0.0 { up } else { down });

        let f = e as f32;
        assert_eq!(r.to_int, [f.round_ties_even() as i32, f as i32, f.floor() as i32, f.ceil() as i32], "{f:e}");
        assert_eq!(r.to_ulong, [e.round_ties_even() as u64, e as u64, e.floor() as u64, e.ceil() as u64], "{e:e}");
    }
}

#[test]
fn integer_intrinsics_compute() {
    let object = object(
        &device_ir_of(
            r#"
            struct Out { unsigned v[10]; };
            extern "C" __global__ void run(const unsigned *in, Out *out) {
                int i = blockIdx.x * 32 + threadIdx.x;
                unsigned a = in[i], b = in[i ^ 1], *v = out[i].v;
                v[0] = __umulhi(a, b); v[1] = __mulhi((int)a, (int)b); v[2] = __umul24(a, b); v[3] = __mul24((int)a, (int)b);
                v[4] = __usad(a, b, 7); asm("prmt.b32 %0, %1, %2, %2;" : "=r"(v[5]) : "r"(a), "r"(b)); v[6] = __brev(a); v[7] = __ffs(a);
                v[8] = __funnelshift_l(a, b, a); v[9] = __float_as_uint(fminf(__uint_as_float(a), __uint_as_float(b)));
            }"#,
        ),
        "default<O2>",
    );
    let mut input: Vec<u32> = vec![0, 1, 0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x0080_0000, 0x7fc0_0000, 0x3f80_0000];
    input.extend((1u32..).map(|i| i.wrapping_mul(0x9e37_79b9)).take(56));
    let mut output = vec![[0u32; 10]; 64];
    let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
    Program::link(&object).launch("run", 2, 32, parameters.get());
    for (i, found) in output.iter().enumerate() {
        let (a, b) = (input[i], input[i ^ 1]);
        let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
        let pick = |nibble: u32| {
            let byte = bytes[(nibble & 7) as usize];
            if nibble & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
        };
        let permuted = u32::from_le_bytes([pick(b & 15), pick(b >> 4 & 15), pick(b >> 8 & 15), pick(b >> 12 & 15)]);
        let signed24 = |x: u32| ((x << 8) as i32) >> 8;
        let mut expected = [
            ((u64::from(a) * u64::from(b)) >> 32) as u32,
            ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
            (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff),
            signed24(a).wrapping_mul(signed24(b)) as u32,
            a.abs_diff(b).wrapping_add(7),
            permuted,
            a.reverse_bits(),
            if a == 0 { 0 } else { a.trailing_zeros() + 1 },
            (((u64::from(b) << 32 | u64::from(a)) << (a & 31)) >> 32) as u32,
            f32::from_bits(a).min(f32::from_bits(b)).to_bits(),
        ];
        if f32::from_bits(expected[9]).is_nan() {
            assert!(f32::from_bits(found[9]).is_nan(), "{a:#x} {b:#x}");
            expected[9] = found[9];
        } else if f32::from_bits(a) == f32::from_bits(b) {
            // Zeros of both signs: the negative one is less.
            expected[9] = a | b;
        }
        assert_eq!(*found, expected, "{a:#x} {b:#x}");
    }
}

#[test]
fn a_division_by_zero_does_not_trap_and_conversions_saturate() {
    let object = object(
        &device_ir_of(
            r#"
            struct Out { int q, r; unsigned u; };
            extern "C" __global__ void run(const int *in, Out *out) {
                int i = threadIdx.x, a = in[2 * i], b = in[2 * i + 1];
                out[i] = Out{a / b, a % b, (unsigned)(float)a};
            }"#,
        ),
        "default<O0>",
    );
    let pairs = [[7, 2], [-7, 2], [5, 0], [i32::MIN, -1], [-3, 0]];
    let mut input: Vec<[i32; 2]> = pairs.into_iter().cycle().take(32).collect();
    let mut output = vec![[0i32; 3]; 32];
    let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
    Program::link(&object).launch("run", 1, 32, parameters.get());
    assert_eq!(output[..5], [[3, 1, 7], [-3, -1, 0], [-1, 5, 5], [i32::MIN, 0, 0], [-1, -3, 0]]);
}

#[test]
fn the_compilers_own_functions_come_along() {
    let object = object_of_text(
        r#"
        target triple = "nvptx64-nvidia-cuda"
        define void @run(ptr %in, ptr %out) {
          %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
          %from = getelementptr double, ptr %in, i32 %i
          %d = load double, ptr %from
          %h = fptrunc double %d to half
          %b = fptrunc double %d to bfloat
          %to = getelementptr { half, bfloat, i32, i64 }, ptr %out, i32 %i
          store half %h, ptr %to
          %second = getelementptr i8, ptr %to, i64 2
          store bfloat %b, ptr %second
          %bits = bitcast double %d to i64
          %wide = sext i64 %bits to i128
          %big = shl i128 %wide, 60
          %q = sdiv i128 %big, 1000000007000000009
          %low = trunc i128 %q to i64
          %third = getelementptr i8, ptr %to, i64 8
          store i64 %low, ptr %third
          ret void
        }
        declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
        !nvvm.annotations = !{!0}
        !0 = !{ptr @run, !"kernel", i32 1}
        "#,
    );
    for name in super::undefined(&object) {
        assert!(super::IMPORTS.contains(&name.as_str()), "{name}");
    }
    assert_eq!(table(&object).kernels.len(), 1);
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Out {
        half: u16,
        brain: u16,
        quotient: i64,
    }
    let mut input: Vec<f64> = (0..32).map(|i| (f64::from(i) - 16.0) * 1.125).collect();
    let mut output = vec![Out::default(); 32];
    let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
    Program::link(&object).launch("run", 1, 32, parameters.get());
    for (d, out) in input.iter().zip(&output) {
        // All inputs have few bits, so they are exact in bfloat's seven and half's ten.
        let brain = f32::from_bits(u32::from(out.brain) << 16);
        assert_eq!(f64::from(brain), *d);
        let exponent = i32::from(out.half >> 10 & 31) - 15;
        let half = f64::from(u32::from(out.half & 1023) + 1024) / 1024.0 * 2f64.powi(exponent);
        assert_eq!(if *d == 0.0 { 0.0 } else { half.copysign(*d) }, *d);
        assert_eq!(out.quotient, ((i128::from(d.to_bits() as i64) << 60) / 1_000_000_007_000_000_009) as i64, "{d}");
    }
}

#[test]
fn conversions_out_of_range_saturate_in_vectors_and_from_short_formats() {
    let text = |kind: &str, identity: &str| {
        format!(
            r#"
        declare i32 @{identity}()
        define {kind} void @run(ptr addrspace(1) %in, ptr addrspace(1) %out) {{
          %i = call i32 @{identity}()
          %none = icmp ne i32 %i, 0
          br i1 %none, label %end, label %first
        first:
          %v = load <4 x float>, ptr addrspace(1) %in, align 4
          %signed = fptosi <4 x float> %v to <4 x i32>
          store <4 x i32> %signed, ptr addrspace(1) %out, align 4
          %unsigned = fptoui <4 x float> %v to <4 x i32>
          %second = getelementptr i8, ptr addrspace(1) %out, i64 16
          store <4 x i32> %unsigned, ptr addrspace(1) %second, align 4
          %half = fptrunc <4 x float> %v to <4 x half>
          %of_half = fptosi <4 x half> %half to <4 x i32>
          %third = getelementptr i8, ptr addrspace(1) %out, i64 32
          store <4 x i32> %of_half, ptr addrspace(1) %third, align 4
          %short = fptosi <4 x float> %v to <4 x i16>
          %extended = sext <4 x i16> %short to <4 x i32>
          %fourth = getelementptr i8, ptr addrspace(1) %out, i64 48
          store <4 x i32> %extended, ptr addrspace(1) %fourth, align 4
          br label %end
        end:
          ret void
        }}"#
        )
    };
    let kernel = "!nvvm.annotations = !{!0}\n!0 = !{ptr @run, !\"kernel\", i32 1}";
    let nvidia = text("", "llvm.nvvm.read.ptx.sreg.tid.x");
    let nvidia = object_of_text(&format!("target triple = \"nvptx64-nvidia-cuda\"\n{nvidia}\n{kernel}"));
    let amd = amdgcn::object_of_text(&text("amdgpu_kernel", "llvm.amdgcn.workitem.id.x"), "gfx90a");
    // AMD's instruction gives 32 bits, of which the lower ones are kept.
    for (object, of_16_bits) in [(nvidia, [i32::from(i16::MAX), 0, -7, i32::from(i16::MIN)]), (amd, [-1, 0, -7, 0])] {
        let mut input = [3e30f32, f32::NAN, -7.5, -3e30];
        let mut output = [[0i32; 4]; 4];
        let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
        Program::link(&object).launch("run", 1, 32, parameters.get());
        assert_eq!(output[0], [i32::MAX, 0, -7, i32::MIN]);
        assert_eq!(output[1], [-1, 0, 0, 0]);
        assert_eq!(output[2], [i32::MAX, 0, -7, i32::MIN]);
        assert_eq!(output[3], of_16_bits);
    }
}
