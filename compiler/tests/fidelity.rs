//! Code is what the application's own tools make of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_compiler::assembler::{Assembler, Options};
use mneme_core::image::cubin;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn clang(source: &Path, words: &[&str]) -> Vec<u8> {
    let output = Command::new("clang++-19")
        .args(["-x", "cuda", "--cuda-gpu-arch=sm_90", "-std=c++17", "-w", "--cuda-device-only", "-o", "-"])
        .arg(format!("--cuda-path={}", root().join(".deps/cuda").display()))
        .args(words)
        .arg(source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{} {words:?}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn machine_code_is_what_ptxas_makes_of_whole_programs() {
    let ptxas = root().join(".deps/nvcc/bin/ptxas");
    let Assembler::NvPtxCompiler(_) = Assembler::find() else { panic!("scripts/setup makes the assembler's library") };
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for name in ["microphysics", "chemistry", "nbody", "math", "atomics"] {
        let ptx = String::from_utf8(clang(&root().join(format!("tests/apps/{name}.cu")), &["-O3", "-S"])).unwrap();
        let (source, object) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
        std::fs::write(&source, &ptx).unwrap();
        let status = Command::new(&ptxas).args(["-arch=sm_90", "-O3", "-o"]).arg(&object).arg(&source).status().unwrap();
        assert!(status.success());
        let theirs = std::fs::read(&object).unwrap();
        for kernel in cubin::parse(&theirs).unwrap().kernels {
            let ours = Assembler::find().assemble(&ptx, &kernel.name, "sm_90", Options::default()).unwrap();
            assert!(ours.assembler.starts_with("nvPTXCompiler 13.") && ours.assembler.ends_with("whole programs"), "{}", ours.assembler);
            let found = cubin::parse(&ours.image).unwrap().kernels.into_iter().find(|found| found.name == kernel.name).unwrap();
            assert_eq!(found.registers, kernel.registers, "{name} {}", kernel.name);
            let code = |image: &[u8]| mneme_core::image::elf::section(image, &format!(".text.{}", kernel.name)).unwrap().to_vec();
            assert!(code(&ours.image) == code(&theirs), "{name} {}", kernel.name);
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared}");
}
