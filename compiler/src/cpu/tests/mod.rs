//! Tests that lower the end-to-end suite's programs.
//!
//! They check the table, the object's imports, and the results of the code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use goblin::elf::Elf;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use mneme_image::cpu_object::{CpuTable, SECTION};

use super::{Lockstep, LowerOptions, lower};
use run::{Parameters, Program};

mod amdgcn;
mod arithmetic;
pub mod run;

const IMPORTS: &[&str] = &[
    "__mneme_cpu_thread", "__mneme_cpu_barrier", "__mneme_cpu_barrier_arrive", "__mneme_cpu_barrier_vote",
    "__mneme_cpu_warp_sync", "__mneme_cpu_cluster_arrive", "__mneme_cpu_cluster_wait", "__mneme_cpu_shuffle",
    "__mneme_cpu_vote", "__mneme_cpu_match", "__mneme_cpu_redux", "__mneme_cpu_activemask", "__mneme_cpu_converge",
    "__mneme_cpu_wave_site", "__mneme_cpu_wave_enter", "__mneme_cpu_wave_leave", "__mneme_cpu_yield",
    "__mneme_cpu_grid_workspace", "__mneme_cpu_texture", "__mneme_cpu_surface_load", "__mneme_cpu_surface_store",
    "__mneme_cpu_image_query", "__mneme_cpu_printf", "__mneme_cpu_malloc", "__mneme_cpu_free", "__mneme_cpu_assert",
    "__mneme_cpu_trap", "__mneme_cpu_clock", "__mneme_cpu_round",
];
const LIBRARY: &[&str] = &[
    "memcpy", "memset", "memmove", "exp2f", "log2f", "sinf", "cosf", "tanhf", "fmaf", "fma", "rintf", "exp2", "log2",
    "sqrtf", "sqrt",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The unoptimised device bitcode of a CUDA source.
fn device_ir(source: &Path) -> Vec<u8> {
    let output = Command::new(concat!("clang++-", env!("MNEME_LLVM_MAJOR")))
        .arg(format!("--cuda-path={}", root().join(".deps/cuda").display()))
        .args(["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-emit-llvm", "-c", "-O3"])
        .args(["-Xclang", "-disable-llvm-passes", "-Wno-unknown-cuda-version", "-o", "-"])
        .arg(source)
        .output()
        .expect("clang (scripts/setup installs it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The device bitcode of CUDA text.
pub fn device_ir_of(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("test.cu");
    std::fs::write(&source, text).unwrap();
    device_ir(&source)
}

pub fn nvptx() -> TargetMachine {
    Target::initialize_nvptx(&InitializationConfig::default());
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    Target::from_triple(&triple)
        .unwrap()
        .create_target_machine(
            &triple,
            "sm_90",
            "+ptx83",
            inkwell::OptimizationLevel::Aggressive,
            RelocMode::Default,
            CodeModel::Default,
        )
        .unwrap()
}

/// Runs `pipeline` as for the GPU, then lowers.
pub fn object(bitcode: &[u8], pipeline: &str) -> Vec<u8> {
    let context = Context::create();
    let module =
        Module::parse_bitcode_from_buffer(&MemoryBuffer::create_from_memory_range_copy(bitcode, "test"), &context)
            .unwrap();
    module.run_passes(pipeline, &nvptx(), PassBuilderOptions::create()).unwrap();
    lower(module, &LowerOptions::new(2), &mut |_, _| true).unwrap_or_else(|error| panic!("{pipeline}: {error}"))
}

/// Lowers a module given as text.
pub fn object_of_text(assembly: &str) -> Vec<u8> {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(assembly.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).unwrap();
    module.set_data_layout(&nvptx().get_target_data().get_data_layout());
    lower(module, &LowerOptions::new(2), &mut |_, _| true).unwrap()
}

pub fn table(object: &[u8]) -> CpuTable {
    let elf = Elf::parse(object).unwrap();
    let section =
        elf.section_headers.iter().find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(SECTION)).expect("the table");
    serde_json::from_slice(&object[section.file_range().unwrap()]).unwrap()
}

fn undefined(object: &[u8]) -> BTreeSet<String> {
    let elf = Elf::parse(object).unwrap();
    let undefined = elf.syms.iter().skip(1).filter(|symbol| symbol.st_shndx == 0);
    undefined
        .map(|symbol| elf.strtab.get_at(symbol.st_name).unwrap().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// A conditional store whose status is ignored (`stlxr wzr, …`) may be lost.
#[cfg(target_arch = "aarch64")]
#[test]
fn no_atomic_operation_forgets_to_look_whether_it_succeeded() {
    for (operation, ty) in [("fadd", "float"), ("fadd", "double"), ("fmax", "float"), ("add", "i32"), ("xchg", "i64")] {
        let object = object_of_text(&format!(
            "define void @k(ptr %p, {ty} %v) {{ %old = atomicrmw {operation} ptr %p, {ty} %v monotonic ret void }}\n\
             !nvvm.annotations = !{{!0}}\n!0 = !{{ptr @k, !\"kernel\", i32 1}}\n"
        ));
        let elf = Elf::parse(&object).unwrap();
        let code = elf.section_headers.iter().filter(|section| section.sh_flags & 4 != 0);
        let words = code.flat_map(|section| object[section.file_range().unwrap()].chunks_exact(4));
        let forgets = |word: &[u8]| u32::from_le_bytes(word.try_into().unwrap()) & 0x3fff_7c00 == 0x081f_7c00;
        assert_eq!(words.filter(|word| forgets(word)).count(), 0, "{operation} {ty}");
    }
}

#[test]
fn every_program_of_the_suite_lowers() {
    let mut apps: Vec<PathBuf> = std::fs::read_dir(root().join("tests/apps"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    assert!(apps.len() > 10, "{apps:?}");
    apps.sort();
    // The longest of these tests. On one core it would still run long after the others.
    let apps = Mutex::new(apps.into_iter().enumerate());
    let next = || apps.lock().unwrap().next();
    std::thread::scope(|scope| {
        let work = || {
            while let Some((place, app)) = next() {
                lowers(&app, place);
            }
        };
        (0..2).for_each(|_| drop(scope.spawn(work)));
    });
}

/// The major version of this LLVM.
const MAJOR: u32 = match u32::from_str_radix(env!("MNEME_LLVM_MAJOR"), 10) {
    Ok(major) => major,
    Err(_) => panic!("a version is a number"),
};

/// Some of the standard pipelines of this LLVM.
fn pipelines() -> impl Iterator<Item = &'static str> {
    ["default<O0>", "default<O1>", "default<O3>"].into_iter().chain((MAJOR < 23).then_some("default<Oz>"))
}

/// Lowers a program without optimisation, which leaves most to the lowering, and under another pipeline by turns.
fn lowers(app: &Path, place: usize) {
    let bitcode = device_ir(app);
    let (plain, others): (Vec<_>, Vec<_>) = pipelines().partition(|pipeline| *pipeline == "default<O0>");
    for pipeline in plain.into_iter().chain([others[place % others.len()]]) {
        let what = format!("{} {pipeline}", app.display());
        let object = object(&bitcode, pipeline);
        let table = table(&object);
        assert!(!table.kernels.is_empty(), "{what}");
        assert_eq!(table.refused, [], "{what}");
        for name in undefined(&object) {
            assert!(IMPORTS.contains(&name.as_str()) || LIBRARY.contains(&name.as_str()), "{what} imports {name}");
        }
    }
}

#[test]
fn vecadd_computes() {
    let bitcode = device_ir(&root().join("tests/apps/vecadd.cu"));
    for pipeline in ["default<O0>", "default<O3>"] {
        let object = object(&bitcode, pipeline);
        let table = table(&object);
        assert!(table.kernels.iter().all(|kernel| !kernel.collective), "{table:?}");
        let row = table.kernels.iter().find(|kernel| kernel.name.contains("IlE")).unwrap();
        let layout: Vec<(u32, u32)> = row.parameters.iter().map(|p| (p.offset, p.size)).collect();
        assert_eq!(layout, [(0, 8), (8, 8), (16, 8)]);

        let mut a: Vec<i64> = (0..100).collect();
        let mut b: Vec<i64> = (0..100).map(|i| 1000 * i).collect();
        let parameters =
            Parameters::default().pointer(a.as_mut_ptr()).pointer(b.as_mut_ptr()).bytes(&90u64.to_le_bytes());
        Program::link(&object).launch("IlE", 2, 32, parameters.get());
        let expected: Vec<i64> = (0..100).map(|i| if i < 90 { 1001 * i } else { i }).collect();
        assert_eq!(a, expected, "{pipeline}");
    }
}

#[test]
fn shared_memory_barriers_and_warp_operations_compute() {
    let bitcode = device_ir_of(
        r#"
        __global__ void sum(const int *in, int *out) {
            __shared__ int tile[128];
            __shared__ int lanes[4];
            extern __shared__ int dynamic[];
            int t = threadIdx.x;
            tile[127 - t] = in[blockIdx.x * 128 + t];
            __syncthreads();
            int value = tile[t];
            for (int d = 16; d; d /= 2) value += __shfl_down_sync(~0u, value, d);
            if (t % 32 == 0) lanes[t / 32] = value;
            int positive = __syncthreads_count(in[t] > 10);
            if (t == 0) out[blockIdx.x] = lanes[0] + lanes[1] + lanes[2] + lanes[3] + 100000 * positive;
        }
        __global__ void plain(int *out) { out[threadIdx.x] = threadIdx.x; }
        "#,
    );
    for pipeline in ["default<O0>", "default<O3>"] {
        let object = object(&bitcode, pipeline);
        let table = table(&object);
        let row = |name: &str| table.kernels.iter().find(|kernel| kernel.name.contains(name)).unwrap().clone();
        assert!(row("sum").collective && !row("plain").collective);
        assert_eq!((row("sum").static_shared, row("plain").static_shared), (528, 0));

        let mut input: Vec<i32> = (0..256).collect();
        let mut output = vec![0i32; 2];
        let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(output.as_mut_ptr());
        Program::link(&object).launch("sum", 2, 128, parameters.get());
        assert_eq!(output, [(0..128).sum::<i32>() + 11_700_000, (128..256).sum::<i32>() + 11_700_000], "{pipeline}");
    }
}

#[test]
fn shared_memory_in_constants_and_phis_and_two_kernels() {
    let object = object_of_text(
        r#"
        target triple = "nvptx64-nvidia-cuda"
        @a = internal addrspace(3) global [3 x i8] undef, align 1
        @b = internal addrspace(3) global [4 x i32] undef, align 16
        @c = internal addrspace(3) global i64 undef, align 8
        @dynamic = external addrspace(3) global [0 x i32], align 32
        define void @first(ptr %out, i32 %x) {
        entry:
          %big = icmp ugt i32 %x, 5
          br i1 %big, label %yes, label %end
        yes:
          br label %end
        end:
          %p = phi ptr [ addrspacecast (ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @b, i64 8) to ptr), %yes ],
                       [ addrspacecast (ptr addrspace(3) @a to ptr), %entry ]
          store ptr %p, ptr %out
          %second = getelementptr i64, ptr %out, i64 1
          store i64 sub (i64 ptrtoint (ptr addrspace(3) @dynamic to i64), i64 ptrtoint (ptr addrspace(3) @a to i64)), ptr %second
          %third = getelementptr i64, ptr %out, i64 2
          store <2 x ptr addrspace(3)> <ptr addrspace(3) @a, ptr addrspace(3) @b>, ptr %third
          ret void
        }
        define void @second(ptr %out) {
          store ptr addrspacecast (ptr addrspace(3) @c to ptr), ptr %out
          ret void
        }
        define void @third() "nvvm.maxntid"="64,2,1" {
          ret void
        }
        !nvvm.annotations = !{!0, !1, !2}
        !0 = !{ptr @first, !"kernel", i32 1}
        !1 = !{ptr @second, !"kernel", i32 1, !"maxntidx", i32 96}
        !2 = !{ptr @third, !"kernel", i32 1}
        "#,
    );
    let table = table(&object);
    let row = |name: &str| table.kernels.iter().find(|kernel| kernel.name == name).unwrap().clone();
    // a at 0, b at 16, dynamic at 32. c overlaps them, because no kernel reaches both.
    assert_eq!((row("first").static_shared, row("first").dynamic_shared_offset), (32, 32));
    assert_eq!((row("second").static_shared, row("second").dynamic_shared_offset), (8, 16));
    assert_eq!([row("first").max_threads, row("second").max_threads, row("third").max_threads], [0, 96, 128]);

    let mut out = [0u64; 4];
    let program = Program::link(&object);
    for (x, expected) in [(9u32, 24u64), (1, 0)] {
        let parameters = Parameters::default().pointer(out.as_mut_ptr()).bytes(&x.to_le_bytes());
        program.launch("first", 1, 32, parameters.get());
        let base = out[2];
        assert_eq!(out, [base + expected, 32, base, base + 16]);
    }
    let base = out[2];
    program.launch("second", 1, 32, Parameters::default().pointer(out.as_mut_ptr()).get());
    assert_eq!(out[0], base);
}

#[test]
fn structures_by_value_are_private_and_variables_are_listed() {
    let object = object(
        &device_ir_of(
            r#"
            struct alignas(16) Big { int head; long long body[6]; char tail; };
            __constant__ int scale = 3;
            __device__ long long total[4] = {1, 2, 3, 4};
            __device__ long long *where = total + 2;
            static __device__ int hidden;
            extern "C" __global__ void run(char first, Big big, short last, long long *out) {
                big.body[threadIdx.x % 6] += threadIdx.x;
                long long sum = 0;
                for (int i = 0; i < 6; i++) sum += big.body[i];
                static __device__ int calls;
                atomicAdd(&calls, 1);
                hidden = calls;
                out[threadIdx.x] = sum * scale + first + last + big.tail + *where + (where - total);
            }"#,
        ),
        "default<O1>",
    );
    let table = table(&object);
    let layout: Vec<(u32, u32)> = table.kernels[0].parameters.iter().map(|p| (p.offset, p.size)).collect();
    assert_eq!(layout, [(0, 1), (16, 64), (80, 2), (88, 8)]);
    let variable =
        |name: &str| table.variables.iter().find(|row| row.name.contains(name)).unwrap_or_else(|| panic!("{name}"));
    assert_eq!((variable("scale").size, variable("scale").constant), (4, true));
    assert_eq!((variable("total").size, variable("total").constant), (32, false));
    assert_eq!((variable("where").size, variable("calls").size), (8, 4));
    let elf = Elf::parse(&object).unwrap();
    for row in &table.variables {
        let symbol = elf.syms.iter().find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(&row.symbol)).unwrap();
        assert_eq!((symbol.st_size, symbol.st_shndx != 0), (row.size, true), "{}", row.symbol);
    }

    let mut out = vec![0i64; 64];
    let mut buffer = vec![5u8];
    buffer.resize(16, 0);
    buffer.extend(7i32.to_le_bytes());
    buffer.resize(24, 0);
    (1..=6i64).for_each(|i| buffer.extend((100 * i).to_le_bytes()));
    buffer.push(9);
    buffer.resize(80, 0);
    buffer.extend(11i16.to_le_bytes());
    buffer.resize(88, 0);
    buffer.extend((out.as_mut_ptr() as u64).to_le_bytes());
    Program::link(&object).launch("run", 1, 64, &buffer);
    let expected: Vec<i64> = (0..64).map(|i| (2100 + i) * 3 + 5 + 11 + 9 + 3 + 2).collect();
    assert_eq!(out, expected);
}

#[test]
fn a_thread_that_exits_returns_from_wherever_it_is() {
    let bitcode = device_ir_of(
        r#"
        __device__ __noinline__ int leave_if(int i, int *out) {
            if (i % 3 == 0) { out[i] = -1; asm volatile("exit;"); }
            return i * 2;
        }
        extern "C" __global__ void run(int *out) {
            int sum = 0;
            for (int i = 0; i <= (int)threadIdx.x % 4; i++) sum += leave_if(threadIdx.x + 32 * (i / 3), out);
            out[threadIdx.x] = sum;
        }"#,
    );
    for pipeline in ["default<O0>", "default<O3>"] {
        let object = object(&bitcode, pipeline);
        assert_eq!(table(&object).refused, []);
        let mut out = vec![0i32; 64];
        Program::link(&object).launch("run", 1, 32, Parameters::default().pointer(out.as_mut_ptr()).get());
        for t in 0..32i32 {
            let mut expected = 0;
            for i in 0..=t % 4 {
                let at = t + 32 * (i / 3);
                if at % 3 == 0 {
                    assert_eq!(out[at as usize], -1, "{t}");
                    expected = if at == t { -1 } else { 0 };
                    break;
                }
                expected += at * 2;
            }
            assert_eq!(out[t as usize], expected, "{pipeline} thread {t}");
        }
    }
}

#[test]
fn cooperative_groups_have_their_reserved_memory() {
    let bitcode = device_ir_of(
        r#"
        #include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void run(const int *in, int *out) {
            __shared__ int own[64];
            auto block = cg::this_thread_block();
            auto tile = cg::tiled_partition<16>(block);
            int sum = in[threadIdx.x];
            for (int d = tile.size() / 2; d; d /= 2) sum += tile.shfl_down(sum, d);
            unsigned long long address;
            asm("{ .reg .u32 start; .reg .u64 wide; mov.u32 start, %%reserved_smem_offset_1; cvt.u64.u32 wide, start; cvta.shared.u64 %0, wide; }"
                : "=l"(address));
            int *reserved = (int *)address;
            own[threadIdx.x] = 0;
            reserved[63 - block.thread_rank()] = tile.shfl(sum, 0);
            block.sync();
            out[threadIdx.x] = reserved[threadIdx.x] + own[threadIdx.x];
        }"#,
    );
    for pipeline in ["default<O0>", "default<O2>"] {
        let object = object(&bitcode, pipeline);
        assert_eq!(table(&object).refused, []);
        assert_eq!(table(&object).kernels[0].static_shared, 1024 + 256);
        let mut input: Vec<i32> = (0..64).collect();
        let mut out = vec![0i32; 64];
        let parameters = Parameters::default().pointer(input.as_mut_ptr()).pointer(out.as_mut_ptr());
        Program::link(&object).launch("run", 1, 64, parameters.get());
        let tile_sum = |t: i32| (t / 16 * 16..t / 16 * 16 + 16).sum::<i32>();
        assert_eq!(out, (0..64).map(|t| tile_sum(63 - t)).collect::<Vec<_>>(), "{pipeline}");
    }
}

#[test]
fn the_same_module_gives_the_same_object_at_every_code_generation_level() {
    let bitcode = device_ir(&root().join("tests/apps/warp.cu"));
    let context = Context::create();
    for codegen_opt in 0..=3 {
        let lowered = || {
            let buffer = MemoryBuffer::create_from_memory_range_copy(&bitcode, "test");
            let module = Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
            module.run_passes("default<O1>", &nvptx(), PassBuilderOptions::create()).unwrap();
            lower(module, &LowerOptions::new(codegen_opt), &mut |_, _| true).unwrap()
        };
        let object = lowered();
        assert!(table(&object).kernels.iter().any(|kernel| kernel.collective));
        assert!(object == lowered(), "level {codegen_opt}");
    }
}

#[test]
fn loops_that_wait_for_memory_yield_and_others_do_not() {
    let waits = |body: &str| {
        let text = format!(
            "__device__ int state[64]; extern \"C\" __global__ void run(volatile int *flag, int *bins, const int *in, int n) {{ {body} }}"
        );
        let bitcode = device_ir_of(&text);
        ["default<O1>", "default<O3>"]
            .map(|pipeline| undefined(&object(&bitcode, pipeline)).contains("__mneme_cpu_yield"))
    };
    for body in [
        "while (*flag == 0) ; bins[0] = n;",
        "while (atomicCAS(&state[0], 0, 1) != 0) ; bins[0] += n; __threadfence(); atomicExch(&state[0], 0);",
        "bool done = false; while (!done) { if (atomicCAS(&state[0], 0, 1) == 0) { bins[0] += n; __threadfence(); atomicExch(&state[0], 0); done = true; } }",
        "while (atomicAdd(&state[1], 0) < n) ;",
        "for (;;) { if (*flag > n) return; }",
        r#"int seen; do asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(bins) : "memory"); while (seen == 0);"#,
        "while (*flag == 0) __nanosleep(100);",
    ] {
        assert_eq!(waits(body), [true, true], "{body}");
    }
    for body in [
        "for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[in[i] & 63], 1);",
        "for (int i = 0; i < n; ++i) if (in[i] > 0) atomicMax(&state[i & 63], in[i]);",
        "int i = 0; while (in[i] != n) ++i; bins[0] = i;",
        "for (int i = 0; i < n; ++i) flag[i] = i;",
    ] {
        assert_eq!(waits(body), [false, false], "{body}");
    }
}

#[test]
fn lanes_keep_in_step_around_volatile_stores_to_shared_memory_alone() {
    let in_step = |body: &str, lockstep| {
        let text = format!(
            "extern \"C\" __global__ void run(volatile int *flag, int *out, int n) {{ __shared__ int s[64]; int t = threadIdx.x; {body} }}"
        );
        let context = Context::create();
        let bitcode = device_ir_of(&text);
        let module =
            Module::parse_bitcode_from_buffer(&MemoryBuffer::create_from_memory_range_copy(&bitcode, "test"), &context)
                .unwrap();
        module.run_passes("default<O3>", &nvptx(), PassBuilderOptions::create()).unwrap();
        let object = lower(module, &LowerOptions { codegen_opt: 2, lockstep }, &mut |_, _| true).unwrap();
        assert_eq!(table(&object).kernels[0].collective, undefined(&object).contains("__mneme_cpu_converge"));
        undefined(&object).contains("__mneme_cpu_converge")
    };
    let volatile = "volatile int *v = s; v[t] = n + t; v[t] += v[t ^ 1]; out[t] = v[t];";
    let plain = "s[t] = n + t; out[t] = s[t ^ 1];";
    assert!(
        in_step(volatile, Lockstep::Volatile) && in_step(volatile, Lockstep::All) && !in_step(volatile, Lockstep::Off)
    );
    assert!(!in_step(plain, Lockstep::Volatile) && in_step(plain, Lockstep::All));
    assert!(!in_step("flag[t] = n;", Lockstep::Volatile));
}
