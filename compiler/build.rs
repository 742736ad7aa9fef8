//! The build script, which links LLVM statically.
//!
//! inkwell and llvm-sys can link LLVM too, but they bind zlib, libffi and libstdc++ dynamically and copy 300 MB of
//! archives into an rlib. The programs must run on machines that have none of these libraries, so everything except
//! glibc is static.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The supported versions of LLVM, each with the feature `llvm<version>` and llvm-sys's number for it.
const VERSIONS: [(&str, &str); 5] = [("19", "191"), ("20", "201"), ("21", "211"), ("22", "221"), ("23", "231")];
/// The libraries that LLVM's archives need besides glibc: libstdc++, and those that LLVM was configured with. libxml2
/// and z3 are left out, because only unused parts of LLVM refer to them.
const COMPANIONS: &[&str] = &["stdc++", "z", "zstd", "ffi"];
/// C++ code that adds to LLVM's C interface.
const SHIM: [&str; 5] =
    ["src/llvm/llvm.cpp", "src/llvm/lld.cpp", "src/llvm/reduce.cpp", "src/llvm/undefined.cpp", "src/llvm/overlaps.cpp"];
/// lld's archives, which refer to LLVM's. Debian has them in `liblld-<version>-dev`.
const LLD: [&str; 2] = ["lldELF", "lldCommon"];
/// The C++ code of the feature `planted-faults`.
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
    // A separate folder, because the archives' own folder has a libc, which may not be that of the linker's command
    // line.
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

/// Compiles the C++ code. It refers to LLVM's archives, so it must come before them on the linker's command line.
///
/// All files are one translation unit, because LLVM's headers take most of the time.
fn compile_shim(includes: &str) {
    for file in SHIM.iter().chain(&HEADERS).chain([&FAULTS]) {
        println!("cargo:rerun-if-changed={file}");
    }
    let mut files = SHIM.to_vec();
    let mut build = cc::Build::new();
    if std::env::var_os("CARGO_FEATURE_PLANTED_FAULTS").is_some() {
        build.define("MNEME_PLANTED_FAULTS", None);
        files.push(FAULTS);
    }
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    let unit = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder")).join("unit.cpp");
    let included: String = files.iter().map(|file| format!("#include \"{here}/{file}\"\n")).collect();
    std::fs::write(&unit, included).unwrap_or_else(|error| panic!("{}: {error}", unit.display()));
    build
        .cpp(true)
        .std("c++17")
        .cpp_link_stdlib(None)
        .flags(["-fno-exceptions", "-fno-rtti"])
        .define("NDEBUG", None)
        // A system include path, so the compiler doesn't warn about LLVM's headers.
        .flag(format!("-isystem{includes}"))
        .file(unit)
        .compile("mneme_llvm");
}

/// The version that the features select, and llvm-sys's number for it.
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
    // The folder on Debian and Ubuntu.
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

/// The path of `library`'s archive, if the C++ compiler knows it.
fn archive(library: &str) -> Option<PathBuf> {
    let mut compiler = cc::Build::new().cpp(true).get_compiler().to_command();
    let output = compiler.arg(format!("-print-file-name=lib{library}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    // The compiler prints an unknown archive as a bare name.
    path.is_absolute().then_some(path)
}
