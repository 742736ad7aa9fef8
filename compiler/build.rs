//! The build script, which links LLVM.
//!
//! inkwell and llvm-sys can do it, but bind zlib, libffi and libstdc++ dynamically and copy 300 MB of archives into an
//! rlib. The programs must run on machines that have none of these libraries, so everything but glibc is static here.

use std::path::{Path, PathBuf};
use std::process::Command;

const MAJOR: &str = "19";
/// Where Debian and Ubuntu put it.
const PREFIX: &str = "/usr/lib/llvm-19";
/// What LLVM's archives need besides glibc: libstdc++, and what they were configured with. libxml2 and z3 are left
/// out: only parts of LLVM that we do not use refer to them.
const COMPANIONS: &[&str] = &["stdc++", "z", "zstd", "ffi"];
/// Our own C++ beside LLVM's C interface.
const SHIM: [&str; 4] = ["src/llvm/llvm.cpp", "src/llvm/lld.cpp", "src/llvm/reduce.cpp", "src/llvm/undefined.cpp"];
/// lld's archives, which refer to LLVM's. Debian has them in `liblld-19-dev`.
const LLD: [&str; 2] = ["lldELF", "lldCommon"];
/// Of the feature `planted-faults`.
const FAULTS: &str = "src/llvm/faults.cpp";
const HEADERS: [&str; 2] = ["src/llvm/faults.h", "src/llvm/revise.h"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LLVM_SYS_191_PREFIX");
    let config = llvm_config();
    let version = ask(&config, &["--version"]);
    assert!(
        version.starts_with(&format!("{MAJOR}.")),
        "{} is LLVM {version}; Mneme is built with LLVM {MAJOR}",
        config.display()
    );
    compile_shim(&ask(&config, &["--includedir"]));
    let libraries = ask(&config, &["--libdir"]);
    println!("cargo:rustc-link-search=native={libraries}");
    for library in LLD {
        let archive = Path::new(&libraries).join(format!("lib{library}.a"));
        assert!(
            archive.is_file(),
            "{} does not exist: install lld {MAJOR}'s development files (liblld-{MAJOR}-dev; scripts/setup does)",
            archive.display()
        );
        println!("cargo:rustc-link-lib=static:-bundle={library}");
    }
    for library in
        ask(&config, &["--link-static", "--libs"]).split_whitespace().filter_map(|flag| flag.strip_prefix("-l"))
    {
        println!("cargo:rustc-link-lib=static:-bundle={library}");
    }
    for library in COMPANIONS {
        match archive(library) {
            Some(folder) => {
                println!("cargo:rustc-link-search=native={}", folder.display());
                println!("cargo:rustc-link-lib=static:-bundle={library}");
            }
            None => println!("cargo:rustc-link-lib=dylib={library}"),
        }
    }
    for library in ["rt", "dl", "m"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

/// Before LLVM's archives on the linker's command line, as it refers to them.
fn compile_shim(includes: &str) {
    for file in SHIM.iter().chain(&HEADERS).chain([&FAULTS]) {
        println!("cargo:rerun-if-changed={file}");
    }
    let mut build = cc::Build::new();
    if std::env::var_os("CARGO_FEATURE_PLANTED_FAULTS").is_some() {
        build.define("MNEME_PLANTED_FAULTS", None).file(FAULTS);
    }
    build
        .cpp(true)
        .std("c++17")
        .cpp_link_stdlib(None)
        .flags(["-fno-exceptions", "-fno-rtti"])
        .define("NDEBUG", None)
        // LLVM's headers are not ours to warn about.
        .flag(format!("-isystem{includes}"))
        .files(SHIM)
        .compile("mneme_llvm");
}

fn llvm_config() -> PathBuf {
    let prefix = std::env::var_os("LLVM_SYS_191_PREFIX")
        .filter(|value| !value.is_empty())
        .map_or_else(|| PathBuf::from(PREFIX), PathBuf::from);
    let path = prefix.join("bin/llvm-config");
    assert!(
        path.is_file(),
        "{} does not exist: install LLVM {MAJOR} (scripts/setup does), or set LLVM_SYS_191_PREFIX to its prefix",
        path.display()
    );
    path
}

fn ask(config: &Path, arguments: &[&str]) -> String {
    let output = Command::new(config)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{} cannot be run: {error}", config.display()));
    assert!(
        output.status.success(),
        "{} {arguments:?} failed: {}",
        config.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The folder of `library`'s archive, if the C++ compiler knows one.
fn archive(library: &str) -> Option<PathBuf> {
    let output = Command::new("c++").arg(format!("-print-file-name=lib{library}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    // An unknown archive is echoed as a bare name.
    path.is_absolute().then(|| path.parent().map(Path::to_path_buf)).flatten()
}
