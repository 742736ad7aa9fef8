//! The build script, which links LLVM.
//!
//! inkwell and llvm-sys can do it, but bind zlib, libffi and libstdc++ dynamically and copy 300 MB of archives into an
//! rlib. The programs must run on machines that have none of these libraries, so everything but glibc is static here.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that it can be, each by the feature `llvm<version>`, with llvm-sys' number for it.
const VERSIONS: [(&str, &str); 5] = [("19", "191"), ("20", "201"), ("21", "211"), ("22", "221"), ("23", "231")];
/// What LLVM's archives need besides glibc: libstdc++, and what they were configured with. libxml2 and z3 are left
/// out: only parts of LLVM that we do not use refer to them.
const COMPANIONS: &[&str] = &["stdc++", "z", "zstd", "ffi"];
/// Our own C++ beside LLVM's C interface.
const SHIM: [&str; 4] = ["src/llvm/llvm.cpp", "src/llvm/lld.cpp", "src/llvm/reduce.cpp", "src/llvm/undefined.cpp"];
/// lld's archives, which refer to LLVM's. Debian has them in `liblld-<version>-dev`.
const LLD: [&str; 2] = ["lldELF", "lldCommon"];
/// Of the feature `planted-faults`.
const FAULTS: &str = "src/llvm/faults.cpp";
const HEADERS: [&str; 3] = ["src/llvm/faults.h", "src/llvm/revise.h", "src/llvm/version.h"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let (major, sys) = chosen();
    let variable = format!("LLVM_SYS_{sys}_PREFIX");
    println!("cargo:rerun-if-env-changed={variable}");
    println!("cargo:rustc-env=MNEME_LLVM_MAJOR={major}");
    let config = llvm_config(major, &variable);
    let version = ask(&config, &["--version"]);
    assert!(
        version.starts_with(&format!("{major}.")),
        "{} is LLVM {version}, and the feature is llvm{major}; set {variable} to the prefix of an LLVM {major}",
        config.display()
    );
    compile_shim(&ask(&config, &["--includedir"]));
    let libraries = ask(&config, &["--libdir"]);
    println!("cargo:rustc-link-search=native={libraries}");
    for library in LLD {
        let archive = Path::new(&libraries).join(format!("lib{library}.a"));
        assert!(
            archive.is_file(),
            "{} does not exist: install lld {major}'s development files (liblld-{major}-dev; scripts/setup --llvm {major} does)",
            archive.display()
        );
        println!("cargo:rustc-link-lib=static:-bundle={library}");
    }
    for library in
        ask(&config, &["--link-static", "--libs"]).split_whitespace().filter_map(|flag| flag.strip_prefix("-l"))
    {
        println!("cargo:rustc-link-lib=static:-bundle={library}");
    }
    // In a folder of their own: beside them lies a libc, which may not be that of the linker's command line.
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder")).join("archives");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    println!("cargo:rustc-link-search=native={}", folder.display());
    for library in COMPANIONS {
        match archive(library) {
            Some(path) => {
                let link = folder.join(format!("lib{library}.a"));
                let _ = std::fs::remove_file(&link);
                std::os::unix::fs::symlink(&path, &link).unwrap_or_else(|error| panic!("{}: {error}", link.display()));
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

/// The version that the features ask for, and llvm-sys' number for it.
fn chosen() -> (&'static str, &'static str) {
    let asked = |(major, _): &&(&str, &str)| std::env::var_os(format!("CARGO_FEATURE_LLVM{major}")).is_some();
    let found: Vec<_> = VERSIONS.iter().filter(asked).collect();
    match found[..] {
        [one] => *one,
        [] => panic!(
            "no feature names an LLVM: llvm19 is the default, and --no-default-features --features llvm22 another"
        ),
        _ => panic!(
            "a program holds one LLVM and the features name several: give --no-default-features with --features llvm22"
        ),
    }
}

fn llvm_config(major: &str, variable: &str) -> PathBuf {
    // Where Debian and Ubuntu put it.
    let usual = PathBuf::from(format!("/usr/lib/llvm-{major}"));
    let prefix = std::env::var_os(variable).filter(|value| !value.is_empty()).map_or(usual, PathBuf::from);
    let path = prefix.join("bin/llvm-config");
    assert!(
        path.is_file(),
        "{} does not exist: install LLVM {major} (scripts/setup --llvm {major} does), or set {variable} to its prefix",
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

/// `library`'s archive, if the C++ compiler knows one.
fn archive(library: &str) -> Option<PathBuf> {
    let mut compiler = cc::Build::new().cpp(true).get_compiler().to_command();
    let output = compiler.arg(format!("-print-file-name=lib{library}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    // An unknown archive is echoed as a bare name.
    path.is_absolute().then_some(path)
}
