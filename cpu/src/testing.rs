//! Code objects for tests, made by the C compiler in the form of the device's own compiler.

use std::io::Write;
use std::process::{Command, Stdio};

use mneme_image::cpu_object::{CpuKernel, CpuParameter, CpuTable, CpuVariable, SECTION, VERSION};

use crate::loader::{self, Loaded, PlacementRange};

/// Declarations for all test kernels.
const PRELUDE: &str = r#"
    typedef unsigned u32; typedef unsigned long u64; typedef unsigned char u8;
    struct context { u32 tid[3], ntid[3], ctaid[3], nctaid[3], lane, warp, dynamic_bytes, total_bytes; u8 *shared; u32 cluster[3], explicit_cluster; };
    const struct context *__mneme_cpu_thread(void);
    void __mneme_cpu_barrier(u32, u32);
    void __mneme_cpu_barrier_arrive(u32, u32);
    u32 __mneme_cpu_barrier_vote(u32, u32, u32, u32);
    void __mneme_cpu_warp_sync(u32);
    void __mneme_cpu_cluster_arrive(void);
    void __mneme_cpu_cluster_wait(void);
    u64 __mneme_cpu_shuffle(u32, u32, u32, u32, u32);
    u32 __mneme_cpu_vote(u32, u32, u32);
    u32 __mneme_cpu_activemask(void);
    void __mneme_cpu_wave_site(u32);
    u64 __mneme_cpu_wave_ballot(u32);
    u64 __mneme_cpu_wave_exchange(u32, u32);
    u64 __mneme_cpu_wave_permute(u32, u32);
    u64 __mneme_cpu_grid_workspace(void); void __mneme_cpu_yield(void);
    const u8 *__mneme_cpu_implicit_arguments(void), *__mneme_cpu_dispatch_packet(void);
    u64 __mneme_cpu_ockl_printf_begin(u64), __mneme_cpu_ockl_fprintf_stderr_begin(void);
    u64 __mneme_cpu_ockl_printf_append_args(u64, u32, u64, u64, u64, u64, u64, u64, u64, u32);
    u64 __mneme_cpu_ockl_printf_append_string_n(u64, const u8 *, u64, u32);
    void __mneme_cpu_trap(void); void *__mneme_cpu_malloc(u64); void __mneme_cpu_free(void *);
    float sinf(float); void *memcpy(void *, const void *, u64);
"#;

/// The row of a kernel with 8-byte parameters.
pub fn kernel(name: &str, parameters: u32, collective: bool) -> CpuKernel {
    CpuKernel {
        name: name.into(),
        entry: name.into(),
        parameters: (0..parameters).map(|index| CpuParameter { offset: 8 * index, size: 8 }).collect(),
        parameter_bytes: 8 * parameters,
        dynamic_shared_offset: 0,
        static_shared: 0,
        collective,
        max_threads: 0,
        warp_size: 32,
        cluster: [0; 3],
    }
}

/// Compiles C to a CPU code object.
pub fn object(source: &str, kernels: Vec<CpuKernel>, variables: Vec<CpuVariable>) -> Vec<u8> {
    let table = serde_json::to_string(&CpuTable { version: VERSION, kernels, variables, refused: vec![] }).unwrap();
    let bytes: Vec<String> = table.bytes().map(|byte| byte.to_string()).collect();
    let table =
        format!("__asm__(\".pushsection {SECTION},\\\"\\\",@progbits\\n.byte {}\\n.popsection\");", bytes.join(","));
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut compiler = Command::new("cc")
        .args(["-c", "-fPIC", "-O1", "-std=gnu11", "-w", "-fno-builtin"])
        // Otherwise atomic operations call the compiler's library.
        .args(cfg!(target_arch = "aarch64").then_some("-mno-outline-atomics"))
        .args(["-x", "c", "-", "-o"])
        .arg(output.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = compiler.stdin.take().unwrap();
    input.write_all(format!("{PRELUDE}\n{source}\n{table}\n").as_bytes()).unwrap();
    drop(input);
    assert!(compiler.wait().unwrap().success());
    std::fs::read(output.path()).unwrap()
}

pub fn load(source: &str, kernels: Vec<CpuKernel>, variables: Vec<CpuVariable>) -> Loaded {
    loader::load(&object(source, kernels, variables), PlacementRange::Application).unwrap()
}
