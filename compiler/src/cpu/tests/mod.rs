//! Lowering the end-to-end suite's programs: what the table says, what the object imports, and that its code computes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use goblin::elf::Elf;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use mneme_core::image::cpu_object::{SECTION, Table};

use super::{LowerOptions, lower};
use run::{Parameters, Program};

pub mod run;

const IMPORTS: &[&str] = &[
    "__mneme_cpu_thread",
    "__mneme_cpu_barrier",
    "__mneme_cpu_barrier_reduce",
    "__mneme_cpu_warp_sync",
    "__mneme_cpu_shuffle",
    "__mneme_cpu_vote",
    "__mneme_cpu_match",
    "__mneme_cpu_redux",
    "__mneme_cpu_activemask",
    "__mneme_cpu_printf",
    "__mneme_cpu_assert",
    "__mneme_cpu_trap",
    "__mneme_cpu_clock",
    "__mneme_cpu_round",
];
const LIBRARY: &[&str] =
    &["memcpy", "memset", "memmove", "exp2f", "log2f", "sinf", "cosf", "tanhf", "fmaf", "fma", "rintf", "exp2", "log2", "sqrtf", "sqrt"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Device bitcode of a CUDA source, unoptimised.
fn device_ir(source: &Path) -> Vec<u8> {
    let output = Command::new("clang++-19")
        .arg(format!("--cuda-path={}", root().join(".deps/cuda").display()))
        .args(["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-emit-llvm", "-c", "-O3"])
        .args(["-Xclang", "-disable-llvm-passes", "-Wno-unknown-cuda-version", "-o", "-"])
        .arg(source)
        .output()
        .expect("clang++-19 (scripts/setup installs it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Device bitcode of CUDA text.
pub fn device_ir_of(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("test.cu");
    std::fs::write(&source, text).unwrap();
    device_ir(&source)
}

fn nvptx() -> TargetMachine {
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
    let module = Module::parse_bitcode_from_buffer(&MemoryBuffer::create_from_memory_range_copy(bitcode, "test"), &context).unwrap();
    module.run_passes(pipeline, &nvptx(), PassBuilderOptions::create()).unwrap();
    lower(module, &LowerOptions { codegen_opt: 2 }).unwrap_or_else(|error| panic!("{pipeline}: {error}"))
}

pub fn table(object: &[u8]) -> Table {
    let elf = Elf::parse(object).unwrap();
    let section = elf.section_headers.iter().find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(SECTION)).expect("the table");
    serde_json::from_slice(&object[section.file_range().unwrap()]).unwrap()
}

fn undefined(object: &[u8]) -> BTreeSet<String> {
    let elf = Elf::parse(object).unwrap();
    let undefined = elf.syms.iter().skip(1).filter(|symbol| symbol.st_shndx == 0);
    undefined.map(|symbol| elf.strtab.get_at(symbol.st_name).unwrap().to_owned()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_program_of_the_suite_lowers_under_every_pipeline() {
    let apps: Vec<PathBuf> = std::fs::read_dir(root().join("tests/apps"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    assert!(apps.len() > 10, "{apps:?}");
    for app in apps {
        let bitcode = device_ir(&app);
        for pipeline in ["default<O0>", "default<O1>", "default<O3>", "default<Oz>"] {
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
        let parameters = Parameters::default().pointer(a.as_mut_ptr()).pointer(b.as_mut_ptr()).bytes(&90u64.to_le_bytes());
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
