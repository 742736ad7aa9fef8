//! Tests of lowering code for AMD GPUs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use mneme_image::cpu_object::Refusal;
use mneme_system::toolkits::device_libraries;

use super::run::{Parameters, Program};
use super::{IMPORTS, LIBRARY, LowerOptions, MAJOR, lower, pipelines, root, table, undefined};

const PIPELINES: [&str; 2] = ["default<O0>", "default<O3>"];
const WAVE_IMPORTS: &[&str] = &[
    "__mneme_cpu_wave_site", "__mneme_cpu_wave_enter", "__mneme_cpu_wave_leave", "__mneme_cpu_wave_converge",
    "__mneme_cpu_wave_ballot", "__mneme_cpu_wave_exchange", "__mneme_cpu_wave_permute",
    "__mneme_cpu_implicit_arguments", "__mneme_cpu_dispatch_packet", "__mneme_cpu_ockl_printf_begin",
    "__mneme_cpu_ockl_printf_append_args", "__mneme_cpu_ockl_printf_append_string_n",
    "__mneme_cpu_ockl_fprintf_stderr_begin",
];

/// The unoptimised device bitcode of a HIP source. `None` if no installed HIP suits this clang: clang 23 rejects the
/// headers of HIP 6.4.
fn device_ir(source: &Path, processor: &str) -> Option<Vec<u8>> {
    static USABLE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let takes_headers = |folder: &PathBuf| clang(folder, Path::new("/dev/null"), "gfx90a").status.success();
        device_libraries(MAJOR).filter(takes_headers)
    });
    let Some(libraries) = &*USABLE else {
        let missing = format!("HIP that clang {MAJOR} takes is not installed (scripts/setup --hip)");
        assert!(std::env::var_os("MNEME_TEST_HIP").is_none(), "{missing}");
        mneme_fixtures::skip(format_args!("{missing}"));
        return None;
    };
    let output = clang(libraries, source, processor);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

fn clang(libraries: &Path, source: &Path, processor: &str) -> Output {
    Command::new(concat!("clang++-", env!("MNEME_LLVM_MAJOR")))
        .args(["-x", "hip", "--rocm-path=/usr", &format!("--rocm-device-lib-path={}", libraries.display())])
        .args([&format!("--offload-arch={processor}"), "--cuda-device-only", "--no-gpu-bundle-output"])
        .args(["-emit-llvm", "-c", "-O3", "-Xclang", "-disable-llvm-passes", "-std=c++17", "-o", "-"])
        // The newest version that Debian 12's device libraries know.
        .arg("-mcode-object-version=5")
        .arg("-include")
        .arg(root().join("compiler/tests/suite/amdgpu/wavefront.h"))
        // The suite's programs use CUDA's function names.
        .arg("-include")
        .arg(root().join("tests/apps/hip/cuda_runtime.h"))
        .args(older_library())
        .arg(source)
        .output()
        .expect("clang (scripts/setup installs it)")
}

/// The device library with the fences that older HIP headers call. clang 22 does not link it by itself.
fn older_library() -> Vec<String> {
    let library = device_libraries(MAJOR).map(|folder| folder.join("hip.bc")).filter(|library| library.is_file());
    let words = |library: PathBuf| {
        ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", &library.to_string_lossy()].map(String::from)
    };
    library.map(words).into_iter().flatten().collect()
}

fn device_ir_of(text: &str, processor: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("test.hip");
    std::fs::write(&source, text).unwrap();
    device_ir(&source, processor)
}

fn amdgpu(processor: &str) -> TargetMachine {
    Target::initialize_amd_gpu(&InitializationConfig::default());
    let triple = TargetTriple::create("amdgcn-amd-amdhsa");
    Target::from_triple(&triple)
        .unwrap()
        .create_target_machine(
            &triple,
            processor,
            "",
            inkwell::OptimizationLevel::Aggressive,
            RelocMode::PIC,
            CodeModel::Default,
        )
        .unwrap()
}

/// Runs `pipeline` as for the GPU, then lowers.
fn object(bitcode: &[u8], pipeline: &str, processor: &str) -> Vec<u8> {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "test");
    let module = Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
    super::super::library::cut(&module);
    module.run_passes(pipeline, &amdgpu(processor), PassBuilderOptions::create()).unwrap();
    lower(module, &LowerOptions::new(2), &mut |_, _| true).unwrap_or_else(|error| panic!("{pipeline}: {error}"))
}

/// Lowers a module given as text, in which `#0` stands for the attributes of a kernel for `processor`.
pub fn object_of_text(assembly: &str, processor: &str) -> Vec<u8> {
    let text = format!(
        "target triple = \"amdgcn-amd-amdhsa\"\n{assembly}\nattributes #0 = {{ \"target-cpu\"=\"{processor}\" }}\n"
    );
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).unwrap();
    module.set_data_layout(&amdgpu(processor).get_target_data().get_data_layout());
    super::super::library::cut(&module);
    lower(module, &LowerOptions::new(2), &mut |_, _| true).unwrap()
}

/// Compiles HIP text and runs each pipeline's object. Does nothing without HIP.
fn with_objects(text: &str, mut check: impl FnMut(&[u8], &str)) {
    let Some(bitcode) = device_ir_of(text, "gfx90a") else { return };
    for pipeline in PIPELINES {
        check(&object(&bitcode, pipeline, "gfx90a"), pipeline);
    }
}

#[test]
fn ids_sizes_and_hidden_arguments_are_those_of_the_launch() {
    let text = r#"extern "C" __global__ void run(int *out) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        out[i] = i + 1000 * gridDim.x + 100000 * __builtin_amdgcn_grid_size_x();
    }"#;
    with_objects(text, |object, pipeline| {
        let table = table(object);
        let row = &table.kernels[0];
        assert_eq!((row.warp_size, row.max_threads, row.collective), (64, 1024, false), "{pipeline}");
        assert!(table.variables.iter().all(|variable| !variable.name.contains("oclc")), "{table:?}");
        let mut out = vec![0i32; 192];
        Program::link(object).launch("run", 3, 64, Parameters::default().pointer(out.as_mut_ptr()).get());
        assert_eq!(out, (0..192).map(|i| i + 3000 + 19_200_000).collect::<Vec<_>>(), "{pipeline}");
    });
}

#[test]
fn structures_by_value_lie_where_the_host_puts_them() {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Small {
        out: *mut f64,
        n: i32,
    }
    #[repr(C)]
    struct Large {
        values: [i32; 20],
        out: *mut f64,
        scale: f64,
    }
    let text = r#"
        struct Small { double *out; int n; };
        struct Large { int values[20]; double *out; double scale; };
        extern "C" __global__ void run(char tag, Small small, bool flag, Large large, short last) {
            int t = threadIdx.x;
            large.values[t % 20] += t;
            if (t < small.n && flag) small.out[t] = large.values[t % 20] * large.scale + tag + last;
            large.out[64 + t] = t;
        }"#;
    with_objects(text, |object, pipeline| {
        let table = table(object);
        let layout: Vec<(u32, u32)> = table.kernels[0].parameters.iter().map(|p| (p.offset, p.size)).collect();
        assert_eq!(layout, [(0, 1), (8, 16), (24, 1), (32, 96), (128, 2)], "{pipeline}");
        let mut out = vec![-1f64; 128];
        let buffer = vec![0u8; 130];
        // SAFETY: the addresses are in the buffer and need no alignment.
        unsafe {
            let at = |offset: usize| buffer.as_ptr().add(offset).cast_mut();
            at(0).write(3);
            at(8).cast::<Small>().write_unaligned(Small { out: out.as_mut_ptr(), n: 40 });
            at(24).write(1);
            let values = std::array::from_fn(|i| 10 * i as i32);
            at(32).cast::<Large>().write_unaligned(Large { values, out: out.as_mut_ptr(), scale: 0.5 });
            at(128).cast::<i16>().write_unaligned(-7);
        }
        let before = buffer.clone();
        Program::link(object).launch("run", 1, 64, &buffer);
        let expected = |t: i32| f64::from(10 * (t % 20) + t) * 0.5 + 3.0 - 7.0;
        assert_eq!(
            out[..64],
            (0..64).map(|t| if t < 40 { expected(t) } else { -1.0 }).collect::<Vec<_>>(),
            "{pipeline}"
        );
        assert_eq!(out[64..], (0..64).map(f64::from).collect::<Vec<_>>(), "{pipeline}");
        buffer[32..].iter().zip(&before[32..]).for_each(|(now, then)| assert_eq!(now, then, "{pipeline}"));
    });
}

#[test]
fn shared_memory_barriers_and_atomics_compute() {
    let text = r#"
        __device__ int total = 5;
        __constant__ double factor = 0.5;
        extern "C" __global__ void run(const int *in, int *out, double *sum, float *largest) {
            __shared__ int tile[128];
            __shared__ double partial;
            __shared__ unsigned bins[4];
            extern __shared__ int dynamic[];
            int t = threadIdx.x;
            if (t == 0) partial = 0;
            if (t < 4) bins[t] = 0;
            dynamic[t] = t;
            tile[127 - t] = in[t];
            __syncthreads();
            out[t] = tile[t] + dynamic[127 - t];
            atomicAdd(&partial, tile[t] * factor);
            atomicAdd(&bins[t & 3], 1u);
            __syncthreads();
            if (t == 0) { atomicAdd(sum, partial); atomicAdd(&total, (int)(bins[0] + bins[3])); }
            unsafeAtomicAdd(sum + 1, 1.0);
            atomicMax(largest, (float)in[t]);
            __syncthreads();
            if (t == 0) out[128] = atomicAdd(&total, 0);
        }"#;
    with_objects(text, |object, pipeline| {
        let table = table(object);
        let row = &table.kernels[0];
        assert!(row.collective);
        // clang aligns arrays like the host.
        let bytes = if cfg!(target_arch = "aarch64") { 536 } else { 544 };
        assert_eq!((row.static_shared, row.dynamic_shared_offset), (bytes, 544), "{pipeline}");
        let mut variables: Vec<(&str, u64, bool)> =
            table.variables.iter().map(|v| (&*v.name, v.size, v.constant)).collect();
        variables.retain(|(name, ..)| !name.contains("HIP") && !name.starts_with("_ZL"));
        assert_eq!(variables, [("total", 4, false), ("factor", 8, true)], "{pipeline}");
        let mut input: Vec<i32> = (0..128).map(|i| i * i - 50).collect();
        let (mut out, mut sum, mut largest) = (vec![0i32; 129], vec![1f64; 2], [0f32]);
        let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(out.as_mut_ptr());
        let parameters = parameters.pointer(sum.as_mut_ptr()).pointer(largest.as_mut_ptr());
        Program::link(object).launch("run", 1, 128, parameters.get());
        let expected: Vec<i32> = (0..128).map(|t| input[127 - t] + 127 - t as i32).chain([5 + 64]).collect();
        assert_eq!(out, expected, "{pipeline}");
        assert_eq!(sum, [1.0 + 0.5 * f64::from(input.iter().sum::<i32>()), 129.0], "{pipeline}");
        assert_eq!(largest, [16079.0], "{pipeline}");
    });
}

#[test]
fn waves_exchange_as_their_64_lanes_do() {
    let text = r#"extern "C" __global__ void run(long long *out) {
            int t = threadIdx.x; long long *o = out + 12 * t;
            o[0] = __ballot(t % 3 == 0);
            o[1] = __shfl_xor(t * 7, 33);
            o[2] = __shfl((double)t, 40) * 2;
            o[3] = __shfl_up((long long)t << 32, 3);
            o[4] = __shfl_down(t, 5, 16);
            o[5] = __any(t == 70) * 2 + __all(t % 64 < 63);
            o[6] = __builtin_amdgcn_readfirstlane(t + 5);
            o[7] = __hip_ds_permute(t * 12, t);
            o[8] = __builtin_amdgcn_readlane(t, 17) + 1000 * (int)__lane_id();
            o[9] = __syncthreads_count(t & 1) + 1000 * __syncthreads_or(t == 3) + 2000 * __syncthreads_and(t < 127);
            int sum = t;
            for (int d = warpSize / 2; d; d /= 2) sum += __shfl_down(sum, d);
            o[10] = __shfl(sum, 0);
            o[11] = __popcll(__ballot64(1)) + __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 7));
        }"#;
    with_objects(text, |object, pipeline| {
        assert!(table(object).kernels[0].collective);
        let mut out = vec![[0i64; 12]; 128];
        Program::link(object).launch("run", 1, 128, Parameters::default().pointer(out.as_mut_ptr()).get());
        for t in 0..128i64 {
            let (wave, lane) = (t / 64 * 64, t % 64);
            let ballot = (0..64).filter(|l| (wave + l) % 3 == 0).fold(0u64, |mask, l| mask | 1 << l);
            let sender = (0..64).filter(|l| l * 3 % 64 == lane).max().map_or(0, |l| wave + l);
            let expected = [
                ballot as i64,
                (wave + (lane ^ 33)) * 7,
                2 * (wave + 40),
                (if lane < 3 { t } else { t - 3 }) << 32,
                if lane % 16 + 5 < 16 { t + 5 } else { t },
                if wave == 64 { 2 } else { 0 },
                wave + 5,
                sender,
                wave + 17 + 1000 * lane,
                64 + 1000,
                (wave..wave + 64).sum(),
                64 + 7 + lane,
            ];
            assert_eq!(out[t as usize], expected, "thread {t}, {pipeline}");
        }
    });
}

/// The lane that lane `i` of `size` reads, according to the instruction set's manual.
fn dpp_source(control: u32, i: u32, size: u32) -> Option<u32> {
    let (row, place, n) = (i & !15, i & 15, control & 15);
    match control {
        0..=0xff => Some((i & !3) | ((control >> (2 * (i & 3))) & 3)),
        0x101..=0x10f => (place + n < 16).then_some(i + n),
        0x111..=0x11f => (place >= n).then(|| i - n),
        0x121..=0x12f => Some(row | ((place + 16 - n) % 16)),
        0x130 => (i + 1 < size).then_some(i + 1),
        0x134 => Some((i + 1) % size),
        0x138 => i.checked_sub(1),
        0x13c => Some((i + size - 1) % size),
        0x140 => Some(row | (15 - place)),
        0x141 => Some(i & !7 | (7 - (i & 7))),
        0x142 => row.checked_sub(1),
        0x143 => (i >= 32).then_some(31),
        0x150..=0x15f => Some(row | n),
        0x160..=0x16f => Some(row | (place ^ n)),
        _ => None,
    }
}

#[test]
fn data_parallel_primitives_read_the_lanes_that_they_name() {
    let mut cases = Vec::new();
    for control in [0x1b, 0xe4, 0x4e, 0x101, 0x10f, 0x111, 0x118, 0x121, 0x12f, 0x130, 0x134, 0x138, 0x13c]
        .into_iter()
        .chain([0x140, 0x141, 0x142, 0x143, 0x153, 0x15f, 0x161, 0x16a])
    {
        cases.extend([false, true].map(|zero| (control, 15, 15, zero)));
    }
    for (rows, banks) in [(10, 15), (15, 5), (1, 8)] {
        cases
            .extend([(0x1b, false), (0x111, true), (0x142, false)].map(|(control, zero)| (control, rows, banks, zero)));
    }
    let mut text = String::from(
        "declare i32 @llvm.amdgcn.workitem.id.x()
        declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
        declare i64 @llvm.amdgcn.update.dpp.i64(i64, i64, i32, i32, i32, i1)
        define amdgpu_kernel void @run(ptr addrspace(1) %out) #0 {
          %t = call i32 @llvm.amdgcn.workitem.id.x()
          %value = add i32 %t, 1000
          %old = add i32 %t, 5000\n",
    );
    for (number, (control, rows, banks, zero)) in cases.iter().enumerate() {
        text += &format!(
            "%v{number} = call i32 @llvm.amdgcn.update.dpp.i32(i32 %old, i32 %value, i32 {control}, i32 {rows}, i32 {banks}, i1 {zero})
            %p{number} = getelementptr [{} x i32], ptr addrspace(1) %out, i32 %t, i32 {number}
            store i32 %v{number}, ptr addrspace(1) %p{number}\n",
            cases.len()
        );
    }
    text += "ret void\n}\n";
    for (processor, size) in [("gfx90a", 64u32), ("gfx1030", 32)] {
        let object = object_of_text(&text, processor);
        assert_eq!(table(&object).refused, []);
        assert_eq!(table(&object).kernels[0].warp_size, size);
        let mut out = vec![0i32; 64 * cases.len()];
        Program::link(&object).launch("run", 1, 64, Parameters::default().pointer(out.as_mut_ptr()).get());
        for t in 0..64u32 {
            let (wave, lane) = (t / size * size, t % size);
            for (case, found) in cases.iter().zip(&out[t as usize * cases.len()..]) {
                let (control, rows, banks, zero) = *case;
                let old = t as i32 + 5000;
                let on = rows >> (lane / 16) & 1 == 1 && banks >> (lane % 16 / 4) & 1 == 1;
                let read = dpp_source(control, lane, size).map(|source| (wave + source) as i32 + 1000);
                let expected = if on { read.unwrap_or(if zero { 0 } else { old }) } else { old };
                assert_eq!(*found, expected, "{processor} lane {lane}: {case:x?}");
            }
        }
    }
}

#[test]
fn swizzles_and_permutations_of_any_type_read_the_lanes_that_they_name() {
    let patterns = [0x041fu32, 0x7c1f, 0x401f, 0x0018, 0x0210, 0x80b1, 0x801b, 0xc060, 0xc463, 0xe000, 0xe010, 0xe01f];
    let source = |pattern: u32, lane: u32| {
        let (place, mask) = (lane & 31, pattern & 31);
        let chosen = if pattern >= 0xe000 {
            if mask == 31 { place } else { (place.reverse_bits() >> 27) >> mask.count_ones() | place & mask }
        } else if pattern >= 0xc000 {
            let distance = pattern >> 5 & 31;
            let turned = if pattern >> 10 & 1 == 1 { place + 32 - distance } else { place + distance };
            turned & !mask & 31 | place & mask
        } else if pattern >= 0x8000 {
            place & !3 | pattern >> (2 * (place & 3)) & 3
        } else {
            ((place & mask) | pattern >> 5 & 31) ^ pattern >> 10 & 31
        };
        lane & 32 | chosen
    };
    let mut text = String::from(
        "declare i32 @llvm.amdgcn.workitem.id.x()
        declare i32 @llvm.amdgcn.ds.swizzle(i32, i32)
        declare <3 x i16> @llvm.amdgcn.readlane.v3i16(<3 x i16>, i32)
        declare half @llvm.amdgcn.readlane.f16(half, i32)
        declare ptr @llvm.amdgcn.readfirstlane.p0(ptr)
        declare i32 @llvm.amdgcn.writelane.i32(i32, i32, i32)
        declare i32 @llvm.amdgcn.permlane16.i32(i32, i32, i32, i32, i1, i1)
        declare i32 @llvm.amdgcn.permlanex16.i32(i32, i32, i32, i32, i1, i1)
        declare i32 @llvm.amdgcn.mov.dpp8.i32(i32, i32)
        declare i64 @llvm.read_register.i64(metadata)
        define amdgpu_kernel void @run(ptr addrspace(1) %out) #0 {
          %t = call i32 @llvm.amdgcn.workitem.id.x()
          %wide = zext i32 %t to i64
          %row = getelementptr [32 x i64], ptr addrspace(1) %out, i32 %t\n",
    );
    for (number, pattern) in patterns.iter().enumerate() {
        text += &format!(
            "%s{number} = call i32 @llvm.amdgcn.ds.swizzle(i32 %t, i32 {pattern})\n{}",
            store(number, "i32", &format!("%s{number}"))
        );
    }
    text += &format!(
        "%narrow = trunc i32 %t to i16
        %vector = insertelement <3 x i16> <i16 1, i16 2, i16 3>, i16 %narrow, i32 2
        %read = call <3 x i16> @llvm.amdgcn.readlane.v3i16(<3 x i16> %vector, i32 9)
        %bits = bitcast <3 x i16> %read to i48
        {}
        %half = sitofp i32 %t to half
        %read.half = call half @llvm.amdgcn.readlane.f16(half %half, i32 21)
        %half.int = fptosi half %read.half to i32
        {}
        %pointer = getelementptr i8, ptr null, i64 %wide
        %far = getelementptr i8, ptr %pointer, i64 81985529216486895
        %read.pointer = call ptr @llvm.amdgcn.readfirstlane.p0(ptr %far)
        %address = ptrtoint ptr %read.pointer to i64
        {}
        %written = call i32 @llvm.amdgcn.writelane.i32(i32 77, i32 5, i32 %t)
        {}
        %perm = call i32 @llvm.amdgcn.permlane16.i32(i32 %t, i32 %t, i32 1985229328, i32 4275878552, i1 false, i1 false)
        {}
        %permx = call i32 @llvm.amdgcn.permlanex16.i32(i32 %t, i32 %t, i32 19088743, i32 2309737967, i1 false, i1 false)
        {}
        %eight = call i32 @llvm.amdgcn.mov.dpp8.i32(i32 %t, i32 342391)
        {}
        %exec = call i64 @llvm.read_register.i64(metadata !0)
        {}
        ret void\n}}\n!0 = !{{!\"exec\"}}\n",
        store(12, "i48", "%bits"),
        store(13, "i32", "%half.int"),
        store(14, "i64", "%address"),
        store(15, "i32", "%written"),
        store(16, "i32", "%perm"),
        store(17, "i32", "%permx"),
        store(18, "i32", "%eight"),
        store(19, "i64", "%exec"),
    );
    let object = object_of_text(&text, "gfx1030");
    assert_eq!(table(&object).refused, []);
    let mut out = vec![[0u64; 32]; 32];
    Program::link(&object).launch("run", 1, 32, Parameters::default().pointer(out.as_mut_ptr()).get());
    for (lane, found) in (0u32..).zip(&out) {
        for (number, pattern) in patterns.iter().enumerate() {
            assert_eq!(found[number], u64::from(source(*pattern, lane)), "lane {lane}, pattern {pattern:x}");
        }
        let (row, place) = (lane & 16, lane & 15);
        let identity = 0xfedc_ba98_7654_3210u64 >> (4 * place) & 15;
        let reversed = 0x89ab_cdef_0123_4567u64 >> (4 * place) & 15;
        let eighth = lane & !7 | 342_391 >> (3 * (lane & 7)) & 7;
        let expected = [
            9 << 32 | 2 << 16 | 1,
            21,
            81_985_529_216_486_895,
            if lane == 5 { 77 } else { u64::from(lane) },
            u64::from(row) | identity,
            u64::from(row ^ 16) | reversed,
            u64::from(eighth),
            0xffff_ffff,
        ];
        assert_eq!(found[12..20], expected, "lane {lane}");
    }
}

/// Stores a value, widened, into the thread's row.
fn store(place: usize, ty: &str, value: &str) -> String {
    let widened = if ty == "i64" { format!("or i64 {value}, 0") } else { format!("zext {ty} {value} to i64") };
    format!(
        "%w{place} = {widened}
        %q{place} = getelementptr i64, ptr addrspace(1) %row, i32 {place}
        store i64 %w{place}, ptr addrspace(1) %q{place}\n"
    )
}

#[test]
fn messages_and_assertions_go_to_the_device_and_not_into_the_library() {
    let text = r#"
        #include <cassert>
        extern "C" __global__ void run(int n) {
            if (threadIdx.x == 3) printf("%d of %s: %f\n", n, "seven", 0.5);
            assert(n < 100);
        }
        extern "C" __global__ void trapping(int *out) { if (out[0]) __builtin_trap(); }"#;
    with_objects(text, |object, pipeline| {
        let names = undefined(object);
        assert!(names.contains("__mneme_cpu_assert") && names.contains("__mneme_cpu_trap"), "{pipeline}: {names:?}");
        assert_eq!(table(object).refused, []);
        let program = Program::link(object);
        program.launch("run", 1, 64, Parameters::default().bytes(&42u32.to_le_bytes()).get());
        let half = 0.5f64.to_bits();
        assert_eq!(program.printed(), format!("out '%d of %s: %f\n' 0x2a 'seven' {half:#x}."), "{pipeline}");
    });
}

#[test]
fn what_the_device_lacks_is_refused_by_name() {
    let text = r#"
        typedef float Four __attribute__((ext_vector_type(4)));
        extern "C" __global__ void allocating(int **out) { out[0] = (int *)malloc(4); }
        extern "C" __global__ void matrices(float *f) {
            Four c = {0};
            c = __builtin_amdgcn_mfma_f32_4x4x1f32(f[0], f[1], c, 0, 0, 0);
            f[2] = c[0];
        }
        extern "C" __global__ void assembling(int *out) { asm volatile("v_mov_b32 %0, 3" : "=v"(out[0])); }
        extern "C" __global__ void idle(int *out) {
            asm volatile("; nothing to do");
            asm volatile("s_waitcnt vmcnt(0)\n\ts_nop 0");
            asm volatile("" : "+v"(out[0]));
        }"#;
    with_objects(text, |object, pipeline| {
        let table = table(object);
        let mut refused: Vec<(&str, &str)> = table.refused.iter().map(|row| (&*row.kernel, &*row.reason)).collect();
        refused.sort_unstable();
        let expected = [
            ("allocating", "device-side `malloc` (`malloc`)"),
            ("assembling", "inline assembly `v_mov_b32 $0, 3`"),
            ("matrices", "matrix cores (`mfma.f32.4x4x1f32`)"),
        ];
        assert_eq!(refused, expected, "{pipeline}");
        assert_eq!(table.kernels.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["idle"], "{pipeline}");
    });
    let reason = |body: &str, rest: &str| {
        let text = format!("define amdgpu_kernel void @run(ptr addrspace(1) %out) #0 {{ {body} ret void }}\n{rest}");
        let table = table(&object_of_text(&text, "gfx90a"));
        table.refused.iter().map(|row| row.reason.clone()).collect::<Vec<_>>().join("; ")
    };
    let hidden =
        "%p = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr() store ptr addrspace(4) %p, ptr addrspace(1) %out";
    let declared = "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()";
    let flag = |version: u32| {
        format!("!llvm.module.flags = !{{!0}}\n!0 = !{{i32 1, !\"amdhsa_code_object_version\", i32 {version}}}")
    };
    assert_eq!(reason(hidden, &format!("{declared}\n{}", flag(500))), "");
    assert_eq!(
        reason(hidden, &format!("{declared}\n{}", flag(400))),
        "hidden arguments of a code object before version 5"
    );
    let register = |number: u32| {
        let body = format!("%v = call i32 @llvm.amdgcn.s.getreg(i32 {number}) store i32 %v, ptr addrspace(1) %out");
        reason(&body, "declare i32 @llvm.amdgcn.s.getreg(i32)")
    };
    assert_eq!(register(63492), "");
    assert_eq!(register(63489), "a hardware register (`llvm.amdgcn.s.getreg`)");
    let make = "ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p1";
    let size = if MAJOR < 23 { "i32" } else { "i64" };
    let fat = &format!("%p = call {make}(ptr addrspace(1) %out, i16 0, {size} 4, i32 0)");
    let resource = &format!("declare {make}(ptr addrspace(1), i16, {size}, i32)");
    // LLVM 21 calls it `.p8.p1`.
    let refusal = "a pointer of address space 8, intrinsic `llvm.amdgcn.make.buffer.rsrc.p";
    assert!(reason(fat, resource).starts_with(refusal), "{}", reason(fat, resource));
}

#[test]
fn pointers_of_32_bits_survive_as_numbers_and_in_memory() {
    let text = r#"
        @lds = internal addrspace(3) global [8 x i32] poison, align 4
        @other = internal addrspace(3) global [64 x i32] poison, align 4
        declare i32 @llvm.amdgcn.workitem.id.x()
        declare ptr addrspace(3) @llvm.ptrmask.p3.i32(ptr addrspace(3), i32)
        declare void @llvm.lifetime.start.p5(i64, ptr addrspace(5))
        define ptr addrspace(5) @same(ptr addrspace(5) %p) noinline { ret ptr addrspace(5) %p }
        define amdgpu_kernel void @run(ptr addrspace(1) %out) #0 {
          %t = call i32 @llvm.amdgcn.workitem.id.x()
          %slot = alloca ptr addrspace(3), align 4, addrspace(5)
          %own = alloca i32, align 4, addrspace(5)
          call void @llvm.lifetime.start.p5(i64 4, ptr addrspace(5) %own)
          store i32 %t, ptr addrspace(5) %own
          %place = getelementptr [64 x i32], ptr addrspace(3) @other, i32 0, i32 %t
          store i32 %t, ptr addrspace(3) %place
          store ptr addrspace(3) %place, ptr addrspace(5) %slot
          %number = load i32, ptr addrspace(5) %slot
          %again = inttoptr i32 %number to ptr addrspace(3)
          %first = load i32, ptr addrspace(3) %again
          %loaded = load ptr addrspace(3), ptr addrspace(5) %slot
          %masked = call ptr addrspace(3) @llvm.ptrmask.p3.i32(ptr addrspace(3) %loaded, i32 -8)
          %second = load i32, ptr addrspace(3) %masked
          %own.number = ptrtoint ptr addrspace(5) %own to i32
          %own.again = inttoptr i32 %own.number to ptr addrspace(5)
          %own.same = call ptr addrspace(5) @same(ptr addrspace(5) %own.again)
          %third = load i32, ptr addrspace(5) %own.same
          %null = ptrtoint ptr addrspace(3) addrspacecast (ptr null to ptr addrspace(3)) to i32
          %base = ptrtoint ptr addrspace(3) @lds to i32
          %row = getelementptr [6 x i32], ptr addrspace(1) %out, i32 %t
          store i32 %number, ptr addrspace(1) %row
          %r1 = getelementptr i32, ptr addrspace(1) %row, i32 1
          store i32 %first, ptr addrspace(1) %r1
          %r2 = getelementptr i32, ptr addrspace(1) %row, i32 2
          store i32 %second, ptr addrspace(1) %r2
          %r3 = getelementptr i32, ptr addrspace(1) %row, i32 3
          store i32 %third, ptr addrspace(1) %r3
          %r4 = getelementptr i32, ptr addrspace(1) %row, i32 4
          store i32 %base, ptr addrspace(1) %r4
          %r5 = getelementptr i32, ptr addrspace(1) %row, i32 5
          store i32 %null, ptr addrspace(1) %r5
          ret void
        }"#;
    let object = object_of_text(text, "gfx90a");
    assert_eq!(table(&object).refused, []);
    let mut out = vec![[0i32; 6]; 64];
    Program::link(&object).launch("run", 1, 64, Parameters::default().pointer(out.as_mut_ptr()).get());
    for (t, found) in (0i32..).zip(&out) {
        // The mask keeps even offsets of words. The lanes of a wave all store before any of them loads only by chance.
        assert_eq!((found[0], found[1], found[3], found[4], found[5]), (32 + 4 * t, t, t, 0, -1));
        assert!(t % 2 == 1 || found[2] == t);
    }
}

#[test]
fn floating_point_instructions_compute() {
    let text = r#"extern "C" __global__ void run(const double *in, double *out) {
            int t = threadIdx.x; double d = in[t]; float f = d; double *o = out + 20 * t;
            o[0] = __builtin_amdgcn_frexp_mant(d); o[1] = __builtin_amdgcn_frexp_exp(d);
            o[2] = __builtin_amdgcn_frexp_mantf(f); o[3] = __builtin_amdgcn_frexp_expf(f);
            o[4] = __builtin_amdgcn_fract(d); o[5] = __builtin_amdgcn_fractf(f);
            o[6] = __builtin_amdgcn_sinf(f); o[7] = __builtin_amdgcn_cosf(f);
            o[8] = __builtin_amdgcn_rcp(d); o[9] = __builtin_amdgcn_fmed3f(f, 0.25f, -1.5f);
            int mask = 0; for (int bit = 0; bit < 10; ++bit) mask |= __builtin_amdgcn_class(d, 1 << bit) << bit;
            o[10] = mask;
            bool flag; double s = __builtin_amdgcn_div_scale(3.0, d, false, &flag);
            o[11] = __builtin_amdgcn_div_fixup(__builtin_amdgcn_div_fmas(s, 1.0, 0.0, flag), d, 3.0);
            double sine, cosine; sincos(d, &sine, &cosine); o[12] = sine; o[13] = cosine;
            o[14] = sinf(f); o[15] = expf(f * 0.01f); o[16] = pow(fabs(d), 0.3); o[17] = fmod(d, 3.0);
            o[18] = __builtin_amdgcn_cvt_pkrtz(f, -f)[1]; o[19] = sqrtf(fabsf(f));
        }"#;
    with_objects(text, |object, pipeline| {
        let mut input: Vec<f64> = vec![0.0, -0.0, 1.0, -0.5, 0.75, 1e-310, -1e-310, 1e-40, 3.25, -1e-17, 1e15, -70.3];
        input.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e22]);
        input.extend((0..48).map(|i| f64::from(i * i - 900) * 0.0371));
        let mut out = vec![[0f64; 20]; 64];
        let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(out.as_mut_ptr());
        Program::link(object).launch("run", 1, 64, parameters.get());
        for (d, o) in input.iter().copied().zip(&out) {
            let f = d as f32;
            let what = format!("{d:e}, {pipeline}");
            let near = |found: f64, expected: f64, tolerance: f64| {
                let same = found == expected || (found.is_nan() && expected.is_nan());
                assert!(
                    same || (found - expected).abs() <= tolerance * expected.abs().max(1e-9),
                    "{what}: {found:e} {expected:e}"
                );
            };
            if d.is_finite() && d != 0.0 {
                assert!(
                    (0.5..1.0).contains(&o[0].abs())
                        && o[0] * 2f64.powi(o[1] as i32 / 2) * 2f64.powi(o[1] as i32 - o[1] as i32 / 2) == d,
                    "{what}: {o:?}"
                );
            } else {
                near(o[0], d, 0.0);
                assert_eq!(o[1], 0.0, "{what}");
            }
            if f.is_finite() && f != 0.0 {
                assert!(
                    (0.5..1.0).contains(&o[2].abs()) && o[2] * 2f64.powi(o[3] as i32) == f64::from(f),
                    "{what}: {o:?}"
                );
            }
            let fract = |whole: f64, below: f64| (d - whole).min(below);
            near(o[4], if d.is_finite() { fract(d.floor(), 1f64.next_down()) } else { f64::NAN }, 0.0);
            assert!(!f.is_finite() || (0.0..1.0).contains(&o[5]), "{what}");
            let turns = f64::from(f) - f64::from(f).floor();
            near(o[6], (turns * std::f64::consts::TAU).sin(), 1e-6);
            near(o[7], (turns * std::f64::consts::TAU).cos(), 1e-6);
            near(o[8], 1.0 / d, 0.0);
            near(o[9], if f.is_nan() { -1.5 } else { f64::from(f).clamp(-1.5, 0.25) }, 0.0);
            let class = match d.classify() {
                std::num::FpCategory::Nan => 2,
                std::num::FpCategory::Infinite => {
                    if d < 0.0 {
                        4
                    } else {
                        512
                    }
                }
                std::num::FpCategory::Normal => {
                    if d < 0.0 {
                        8
                    } else {
                        256
                    }
                }
                std::num::FpCategory::Subnormal => {
                    if d < 0.0 {
                        16
                    } else {
                        128
                    }
                }
                std::num::FpCategory::Zero => {
                    if d.is_sign_negative() {
                        32
                    } else {
                        64
                    }
                }
            };
            assert_eq!(o[10], f64::from(class), "{what}");
            near(o[11], 3.0 / d, 0.0);
            near(o[12], d.sin(), 1e-14);
            near(o[13], d.cos(), 1e-14);
            near(o[14], f64::from(f).sin(), 1e-6);
            near(o[15], f64::from(f32::exp(f * 0.01)), 1e-6);
            near(o[16], d.abs().powf(0.3), 1e-14);
            near(o[17], d % 3.0, 0.0);
            near(o[19], f64::from(f.abs().sqrt()), 1e-6);
            // Rounds toward zero, which never reaches infinity.
            let half = o[18];
            let exact = -f64::from(f);
            assert!(half.abs() <= exact.abs() || exact.is_nan(), "{what}: {half}");
            assert!(
                exact.abs() > 65504.0
                    || exact.is_nan()
                    || (half - exact).abs() <= 2f64.powi(-10) * exact.abs().max(2f64.powi(-14)),
                "{what}: {half}"
            );
        }
    });
}

#[test]
fn the_digits_of_two_over_pi_are_llvms_own() {
    let cases = [
        (1.0, 0),
        (1.0, 3),
        (f64::from_bits(0x7fe0_0000_0000_0001), 1),
        (f64::from_bits(0x5fe0_0000_0000_0001), 2),
        (1e300, 7),
        (1e200, 30),
    ];
    let mut text = String::from("declare double @llvm.amdgcn.trig.preop.f64(double, i32)\n");
    text += "define amdgpu_kernel void @run(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n";
    for (number, (value, segment)) in cases.iter().enumerate() {
        text += &format!(
            "%i{number} = getelementptr double, ptr addrspace(1) %in, i32 {number}
            %x{number} = load double, ptr addrspace(1) %i{number}
            %v{number} = call double @llvm.amdgcn.trig.preop.f64(double %x{number}, i32 {segment})
            %c{number} = call double @llvm.amdgcn.trig.preop.f64(double 0x{:016X}, i32 {segment})
            %p{number} = getelementptr [2 x double], ptr addrspace(1) %out, i32 {number}
            %q{number} = getelementptr double, ptr addrspace(1) %p{number}, i32 1
            store double %v{number}, ptr addrspace(1) %p{number}
            store double %c{number}, ptr addrspace(1) %q{number}\n",
            value.to_bits()
        );
    }
    text += "ret void\n}\nattributes #0 = { \"target-cpu\"=\"gfx90a\" }\n";
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).unwrap();
    let machine = amdgpu("gfx90a");
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module.run_passes("instcombine", &machine, PassBuilderOptions::create()).unwrap();
    assert_eq!(crate::ir::text(&module).matches("call double").count(), cases.len(), "LLVM folds constants");
    let object = lower(module, &LowerOptions::new(2), &mut |_, _| true).unwrap();
    let (mut input, mut out) = (cases.map(|(value, _)| value).to_vec(), vec![[0f64; 2]; cases.len()]);
    let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(out.as_mut_ptr());
    Program::link(&object).launch("run", 1, 64, parameters.get());
    for (case, [found, folded]) in cases.iter().zip(&out) {
        assert_eq!(found.to_bits(), folded.to_bits(), "{case:?}: {found:e} {folded:e}");
    }
}

#[test]
fn integer_instructions_compute() {
    let text = r#"extern "C" __global__ void run(const unsigned *in, unsigned *out) {
            int t = threadIdx.x; unsigned a = in[t], b = in[t ^ 1], *o = out + 12 * t;
            o[0] = __builtin_amdgcn_ubfe(a, b, t); o[1] = __builtin_amdgcn_sbfe(a, t, b);
            o[2] = __builtin_amdgcn_perm(a, b, 0x0d0c0804u + t % 8); o[3] = __builtin_amdgcn_alignbyte(a, b, t);
            o[4] = __builtin_amdgcn_sad_u8(a, b, 7); o[5] = __builtin_amdgcn_msad_u8(a, b, 7);
            o[6] = __builtin_amdgcn_sad_u16(a, b, 7); o[7] = __builtin_amdgcn_lerp(a, b, 0x01000001);
            o[8] = __builtin_amdgcn_ubfe(a, 3, 32); o[9] = __mul24((int)a, (int)b);
            o[10] = __builtin_amdgcn_sdot4(a, b, 5, true); o[11] = __builtin_amdgcn_udot4(a, b, 5, false);
        }"#;
    with_objects(text, |object, pipeline| {
        let mut input: Vec<u32> = vec![0, u32::MAX, 0x8000_0000, 0x7fff_ffff, 1, 0x00ff_00ff, 0x0102_0304, 0x7f7f_7f7f];
        input.extend((1u32..57).map(|i| i.wrapping_mul(0x9e37_79b9)));
        let mut out = vec![[0u32; 12]; 64];
        let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(out.as_mut_ptr());
        Program::link(object).launch("run", 1, 64, parameters.get());
        for t in 0..64u32 {
            let (a, b) = (input[t as usize], input[t as usize ^ 1]);
            let field = |value: i64, offset: u32, width: u32| {
                let (offset, width) = (offset & 31, width & 31);
                if width == 0 { 0 } else { (value >> offset & ((1i64 << width) - 1), width.min(32 - offset)).0 }
            };
            let unsigned = field(i64::from(a), b, t) as u32;
            let (offset, width) = (t & 31, b & 31);
            let kept = width.min(32 - offset);
            let signed = if width == 0 { 0 } else { ((a >> offset << (32 - kept)) as i32 >> (32 - kept)) as u32 };
            let words = u64::from(a) << 32 | u64::from(b);
            let pick = |selector: u32| match selector {
                0..=7 => (words >> (8 * selector)) as u8,
                8..=11 => {
                    if words >> (16 * (selector - 8) + 15) & 1 == 1 {
                        255
                    } else {
                        0
                    }
                }
                12 => 0,
                _ => 255,
            };
            let selectors = (0x0d0c_0804u32 + t % 8).to_le_bytes().map(u32::from);
            let (x, y) = (a.to_le_bytes(), b.to_le_bytes());
            let pairs = || x.into_iter().zip(y);
            let halves = |v: u32| [v & 0xffff, v >> 16];
            let signed_sum: i64 = pairs().map(|(p, q)| i64::from(p as i8) * i64::from(q as i8)).sum();
            let lerp = |i: usize, carry: u32| ((u32::from(x[i]) + u32::from(y[i]) + carry) >> 1) as u8;
            let expected = [
                unsigned,
                signed,
                u32::from_le_bytes(selectors.map(pick)),
                (words >> (8 * (t & 3))) as u32,
                7 + pairs().map(|(p, q)| u32::from(p.abs_diff(q))).sum::<u32>(),
                7 + pairs().filter(|(_, q)| *q != 0).map(|(p, q)| u32::from(p.abs_diff(q))).sum::<u32>(),
                7 + halves(a).into_iter().zip(halves(b)).map(|(p, q)| p.abs_diff(q)).sum::<u32>(),
                u32::from_le_bytes([lerp(0, 1), lerp(1, 0), lerp(2, 0), lerp(3, 1)]),
                0,
                (((a << 8) as i32 >> 8).wrapping_mul((b << 8) as i32 >> 8)) as u32,
                (signed_sum + 5).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32,
                5 + pairs().map(|(p, q)| u32::from(p) * u32::from(q)).sum::<u32>(),
            ];
            assert_eq!(out[t as usize], expected, "{a:#x} {b:#x} thread {t}, {pipeline}");
        }
    });
}

#[test]
fn waves_have_the_size_of_their_processor_unless_the_kernel_says_otherwise() {
    let size = |processor: &str, features: &str| {
        let text = format!(
            "define amdgpu_kernel void @run() #1 {{ ret void }}\nattributes #1 = {{ \"target-cpu\"=\"{processor}\" \"target-features\"=\"{features}\" \"amdgpu-flat-work-group-size\"=\"1,256\" }}"
        );
        let row = table(&object_of_text(&text, processor)).kernels[0].clone();
        assert_eq!(row.max_threads, 256);
        row.warp_size
    };
    assert_eq!(["gfx803", "gfx906", "gfx90a", "gfx942", "gfx9-generic"].map(|processor| size(processor, "")), [64; 5]);
    assert_eq!(
        ["gfx1010", "gfx1100", "gfx1201", "gfx10-3-generic"].map(|processor| size(processor, "+dl-insts")),
        [32; 4]
    );
    assert_eq!(size("gfx1030", "+dl-insts,+wavefrontsize64"), 64);
}

#[test]
fn loops_that_wait_yield_and_volatile_stores_to_shared_memory_keep_lanes_in_step() {
    let text = |body: &str| {
        format!(
            "__device__ int state[64]; extern \"C\" __global__ void run(volatile int *flag, int *bins, const int *in, int n) {{ __shared__ int s[64]; int t = threadIdx.x; {body} }}"
        )
    };
    let imports = |body: &str, import: &str| {
        let mut found = Vec::new();
        if let Some(bitcode) = device_ir_of(&text(body), "gfx90a") {
            for pipeline in ["default<O1>", "default<O3>"] {
                found.push(undefined(&object(&bitcode, pipeline, "gfx90a")).contains(import));
            }
        }
        found
    };
    let installed = !imports("", "").is_empty();
    for body in [
        "while (*flag == 0) ; bins[0] = n;",
        "while (atomicCAS(&state[0], 0, 1) != 0) ; bins[0] += n; __threadfence(); atomicExch(&state[0], 0);",
        "while (bins[n] == 0) __builtin_amdgcn_s_sleep(2);",
    ] {
        assert!(!installed || imports(body, "__mneme_cpu_yield") == [true, true], "{body}");
    }
    for body in [
        "for (int i = t; i < n; i += blockDim.x) atomicAdd(&bins[in[i] & 63], 1);",
        "for (int d = 32; d; d /= 2) n += __shfl_down(n, d); bins[t] = n;",
    ] {
        assert!(!installed || imports(body, "__mneme_cpu_yield") == [false, false], "{body}");
    }
    let volatile = "volatile int *v = s; v[t] = n + t; v[t] += v[t ^ 1]; bins[t] = v[t];";
    assert!(!installed || imports(volatile, "__mneme_cpu_wave_converge") == [true, true]);
    // A plain store counts too if others of the wave may still read the old value, but not with a barrier between.
    let races = "s[t] = n + t; bins[t] = s[t ^ 1];";
    assert!(!installed || imports(races, "__mneme_cpu_wave_converge") == [true, true]);
    let waits = "s[t] = n + t; __syncthreads(); bins[t] = s[t ^ 1];";
    assert!(!installed || imports(waits, "__mneme_cpu_wave_converge") == [false, false]);
}

#[test]
fn wave_operations_are_called_from_as_many_places_as_the_source_has() {
    // The call's address identifies the lanes that are together, and the number gives their order.
    let text = r#"
        declare i32 @llvm.amdgcn.workitem.id.x()
        declare i64 @llvm.amdgcn.ballot.i64(i1)
        define amdgpu_kernel void @run(ptr addrspace(1) %out, i32 %n) #0 {
          %t = call i32 @llvm.amdgcn.workitem.id.x()
          %place = getelementptr i64, ptr addrspace(1) %out, i32 %t
          %low = icmp ult i32 %t, %n
          br i1 %low, label %yes, label %no
        yes:
          %a = call i64 @llvm.amdgcn.ballot.i64(i1 true)
          br label %join
        no:
          %b = call i64 @llvm.amdgcn.ballot.i64(i1 true)
          br label %join
        join:
          %v = phi i64 [ %a, %yes ], [ %b, %no ]
          store i64 %v, ptr addrspace(1) %place
          switch i32 %n, label %other [ i32 1, label %one
            i32 2, label %two ]
        one:
          store i64 1, ptr addrspace(1) %out
          br label %last
        two:
          store i64 2, ptr addrspace(1) %place
          br label %last
        other:
          br label %last
        last:
          %c = call i64 @llvm.amdgcn.ballot.i64(i1 %low)
          ret void
        }"#;
    let object = object_of_text(text, "gfx90a");
    let elf = goblin::elf::Elf::parse(&object).unwrap();
    let name = |index: usize| elf.strtab.get_at(elf.syms.get(index).unwrap().st_name);
    for import in ["__mneme_cpu_wave_ballot", "__mneme_cpu_wave_site"] {
        let relocations = elf.shdr_relocs.iter().flat_map(|(_, relocations)| relocations.iter());
        assert_eq!(relocations.filter(|found| name(found.r_sym) == Some(import)).count(), 3, "{import}");
    }
}

#[test]
fn functions_of_the_library_are_known_in_modules_that_were_linked() {
    let text = r#"
        define internal i64 @__ockl_printf_begin(i64 %v) { ret i64 1 }
        define internal i64 @__ockl_printf_begin.12(i64 %v) { ret i64 2 }
        define internal i64 @__ockl_fprintf_stdout_begin() { ret i64 3 }
        define amdgpu_kernel void @run(ptr addrspace(1) %out) #0 {
          %a = call i64 @__ockl_printf_begin(i64 0)
          %b = call i64 @__ockl_printf_begin.12(i64 0)
          %c = call i64 @__ockl_fprintf_stdout_begin()
          %ab = mul i64 %a, %b
          %abc = mul i64 %ab, %c
          store i64 %abc, ptr addrspace(1) %out
          ret void
        }"#;
    let program = Program::link(&object_of_text(text, "gfx90a"));
    let mut out = [0u64];
    program.launch("run", 1, 64, Parameters::default().pointer(out.as_mut_ptr()).get());
    assert_eq!((out, program.printed()), ([343], "out".repeat(3 * 64)));
}

#[test]
fn every_hip_program_of_the_suite_lowers_under_every_pipeline() {
    let programs: Vec<PathBuf> = std::fs::read_dir(root().join("tests/apps/hip"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "hip"))
        .collect();
    assert!(programs.len() > 5, "{programs:?}");
    for program in programs {
        let allocates = program.file_stem().is_some_and(|stem| stem == "refused");
        for processor in ["gfx90a", "gfx1030"] {
            let Some(bitcode) = device_ir(&program, processor) else { return };
            for pipeline in pipelines() {
                let what = format!("{} {processor} {pipeline}", program.display());
                let object = object(&bitcode, pipeline, processor);
                let table = table(&object);
                assert!(!table.kernels.is_empty(), "{what}");
                let refused = |row: &Refusal| !allocates || !row.reason.contains("device-side `malloc`");
                assert!(!table.refused.iter().any(refused), "{what}: {:?}", table.refused);
                for name in undefined(&object) {
                    let is_known = [IMPORTS, LIBRARY, WAVE_IMPORTS].iter().any(|known| known.contains(&name.as_str()));
                    assert!(is_known, "{what} imports {name}");
                }
            }
        }
    }
}
