//! Tests of recorded code that attempts more than computing.
//!
//! On the CPU device it runs on this machine's processor, and the sandbox denies everything else.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use mneme_e2e::apps::app;
use mneme_e2e::installation::{TestDevice, have_compiler};
use mneme_e2e::recording::Recording;
use mneme_image::cpu_object::{CpuTable, SECTION};
use mneme_model::hash::checksum;

/// A kernel that creates a file with its own system calls.
const INTRUDER: &str = r#"
    static long call(long number, long a, long b, long c) {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
        return result;
    }
    void intrude(const unsigned char *parameters) {
        long file = call(2, (long)PATH, 0101, 0600);
        if (file >= 0) call(3, file, 0, 0);
    }
"#;

/// A section of an object, extracted by the linker's companion tool.
fn section(object: &Path, name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("section");
    let mut command = Command::new("objcopy");
    command.args(["-O", "binary", "--only-section", name, "--set-section-flags", &format!("{name}=alloc")]);
    assert!(command.arg(object).arg(&output).status().unwrap().success());
    fs::read(output).unwrap()
}

/// An object whose only kernel is the intruder. It has the name and the parameters of the kernel that it replaces.
fn intruder(object: &Path, kernel: &str, file: &Path) -> Vec<u8> {
    let mut table: CpuTable = serde_json::from_slice(&section(object, SECTION)).unwrap();
    table.kernels.retain(|row| row.name == kernel);
    assert_eq!(table.kernels.len(), 1);
    table.kernels[0].entry = "intrude".into();
    table.variables.clear();
    let bytes: Vec<String> = serde_json::to_vec(&table).unwrap().iter().map(u8::to_string).collect();
    let table =
        format!("__asm__(\".pushsection {SECTION},\\\"\\\",@progbits\\n.byte {}\\n.popsection\");", bytes.join(","));
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("intruder.o");
    let mut compiler = Command::new("cc");
    compiler.args(["-c", "-fPIC", "-O1", "-w", "-fno-stack-protector", "-x", "c", "-", "-o"]).arg(&output);
    let mut compiler = compiler.stdin(Stdio::piped()).spawn().unwrap();
    let source = format!("#define PATH {:?}\n{INTRUDER}\n{table}\n", file.display().to_string());
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    fs::read(output).unwrap()
}

#[test]
fn recorded_code_makes_no_file() {
    let test = "recorded_code_makes_no_file";
    if TestDevice::under_test() != TestDevice::Cpu || !have_compiler(test) {
        mneme_fixtures::skip(format_args!("{test} is about the CPU device"));
        return;
    }
    let recording = Recording::of(app("inplace"), &["4096"]);
    let (database, mut kernel) = recording.kernels().remove(0);
    let instance = recording.single();
    let object = recording.folder().join(&kernel.instances[&instance.id].ours.original[0].file);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made-by-a-kernel");
    let planted = intruder(&object, &kernel.kernel_name, &file);
    // Anyone who can write the file can write its checksum too.
    kernel.instances.get_mut(&instance.id).unwrap().ours.original[0].checksum = checksum(&planted);
    kernel.save(&database).unwrap();
    fs::write(&object, planted).unwrap();

    // A single process is not confined. So the kernel runs, and creates the file.
    let replay = |isolation: &str| {
        instance.replay("default<O3>").args(["--original", "--isolation", isolation, "-v", "debug"]).outcome()
    };
    let outcome = replay("none");
    assert!(file.exists(), "{outcome}");
    for isolation in ["fault", "process"] {
        fs::remove_file(&file).unwrap_or_default();
        let outcome = replay(isolation);
        if outcome.stderr.contains("is not confined") || outcome.stderr.contains("no Landlock") {
            mneme_fixtures::skip("this kernel offers no Landlock");
            continue;
        }
        assert!(!file.exists(), "{outcome}");
        assert_eq!(outcome.status, mneme_system::exit::NOT_VERIFIED, "{outcome}");
        outcome.complains("confined by Landlock and seccomp");
    }
}
