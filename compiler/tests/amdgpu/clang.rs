//! HIP programs as clang compiles them: to IR as it is recorded, and to code objects.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use mneme_compiler::{Artifact, BuildError, BuildRequest, InputCode, Target, build};
use mneme_core::configuration::Configuration;
use mneme_core::image::code_object::{self, CodeObject, Kernel};
use mneme_core::launch::Dim3;

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode";

/// A program, what it is compiled for, and how.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub file: &'a str,
    pub arch: &'a str,
    pub version: u32,
    pub flags: &'a [&'a str],
}

impl Program<'_> {
    /// IR as the front end writes it.
    pub fn ir(self) -> Vec<u8> {
        self.compile("bc", &["-emit-llvm", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names"])
    }

    /// The same without names of values, which code objects of recorded IR tell of arguments.
    pub fn nameless_ir(self) -> Vec<u8> {
        self.compile("bc", &["-emit-llvm", "-Xclang", "-disable-llvm-passes"])
    }

    /// IR as clang's own passes leave it, as text.
    pub fn optimised_ir(self) -> String {
        String::from_utf8(self.compile("ll", &["-emit-llvm", "-S", "-fno-discard-value-names"])).unwrap()
    }

    /// clang's own code object.
    pub fn code_object(self) -> Vec<u8> {
        self.compile("co", &["--no-gpu-bundle-output"])
    }

    fn compile(self, extension: &str, words: &[&str]) -> Vec<u8> {
        // Files are named for what is in them; two tests may want the same.
        static ONE: Mutex<u32> = Mutex::new(0);
        let number = {
            let mut number = ONE.lock().unwrap();
            *number += 1;
            *number
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/amdgpu").join(self.file);
        let to: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("amdgpu-{number}.{extension}"));
        let output = Command::new("clang++-19")
            .args(["-x", "hip", "--cuda-device-only", "-c", "-O3", "-std=c++17", "-fuse-cuid=none"])
            .args(if self.file == "bare.hip" {
                vec!["-nogpuinc".to_owned(), "-nogpulib".into()]
            } else {
                vec!["--rocm-path=/usr".to_owned(), format!("--rocm-device-lib-path={LIBRARIES}")]
            })
            .arg(format!("--offload-arch={}", self.arch))
            .arg(format!("-mcode-object-version={}", self.version))
            .args(self.flags)
            .args(words)
            .arg(source)
            .arg("-o")
            .arg(&to)
            .output()
            .expect("clang++-19 is installed");
        assert!(output.status.success(), "{self:?}: {}", String::from_utf8_lossy(&output.stderr));
        let bytes = std::fs::read(&to).unwrap();
        std::fs::remove_file(to).unwrap();
        bytes
    }
}

/// A launch of one block of 256, compiled with `default<O3>`.
pub fn usual() -> Configuration {
    Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(256, 1, 1), 0)
}

/// One kernel's build for a device.
pub fn build_for(
    ir: &[&[u8]],
    kernel: &str,
    device: &str,
    configuration: &Configuration,
) -> Result<Artifact, BuildError> {
    let target = Target::gpu(device);
    build(&BuildRequest::new(InputCode::Ir(ir), kernel, &target, configuration))
}

/// What the code object says of the kernel.
pub fn kernel_of(image: &[u8], kernel: &str) -> (CodeObject, Kernel) {
    let object = code_object::parse(image).expect("it is a code object");
    let found = object.kernels.iter().find(|found| found.name == kernel).expect("it has the kernel").clone();
    (object, found)
}
