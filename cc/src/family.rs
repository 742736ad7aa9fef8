//! The family of the compiler on a command line.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Compilers that share a command-line syntax and a way to get device IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompilerFamily {
    Clang,
    Nvcc,
    /// AMD's front end for clang, or for nvcc.
    Hipcc,
    /// Compilers without device code, for which mneme-cc has nothing to do.
    Host,
    /// Programs in front of a compiler, like mneme-cc itself: caches and distributed compilers.
    Launcher,
    Unknown,
}

impl CompilerFamily {
    /// The family by the program's name, without version suffixes and target prefixes ("clang++-19",
    /// "x86_64-linux-gnu-g++").
    pub fn of(compiler: &Path) -> Self {
        let name = compiler.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').trim_end_matches('-');
        match name.rsplit('-').next().unwrap_or(name) {
            "clang" | "clang++" | "amdclang" | "amdclang++" => Self::Clang,
            "nvcc" => Self::Nvcc,
            "hipcc" => Self::Hipcc,
            "ccache" | "sccache" | "buildcache" | "distcc" | "icecc" => Self::Launcher,
            "gcc" | "g++" | "cc" | "c++" | "gfortran" | "flang" | "icx" | "icpx" | "ifx" => Self::Host,
            _ => Self::Unknown,
        }
    }
}

/// Replaces this process by the compiler.
pub fn pass_through(compiler: &Path, arguments: &[OsString]) -> anyhow::Result<u8> {
    become_it(Command::new(compiler).args(arguments), compiler)
}

/// Replaces this process by a command that runs the compiler.
pub fn become_it(command: &mut Command, compiler: &Path) -> anyhow::Result<u8> {
    let error = command.exec();
    Ok(not_run(compiler, &error))
}

/// Reports that a compiler cannot be run. Returns the status of a shell for such a command.
pub fn not_run(compiler: &Path, error: &std::io::Error) -> u8 {
    mneme_system::remark!("mneme-cc: {} cannot be run: {error}", compiler.display());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_family() {
        for (name, family) in [
            ("clang++", CompilerFamily::Clang),
            ("/usr/lib/llvm-19/bin/clang-19", CompilerFamily::Clang),
            ("clang++-19", CompilerFamily::Clang),
            ("aarch64-linux-gnu-clang++-19.1", CompilerFamily::Clang),
            ("/prefix/bin/mneme-clang++", CompilerFamily::Clang),
            ("nvcc", CompilerFamily::Nvcc),
            ("/opt/rocm/bin/hipcc", CompilerFamily::Hipcc),
            ("/opt/rocm/bin/amdclang++", CompilerFamily::Clang),
            ("x86_64-linux-gnu-g++-12", CompilerFamily::Host),
            ("c++", CompilerFamily::Host),
            ("/usr/bin/ccache", CompilerFamily::Launcher),
            ("ld", CompilerFamily::Unknown),
            ("clang-tidy", CompilerFamily::Unknown),
        ] {
            assert_eq!(CompilerFamily::of(Path::new(name)), family, "{name}");
        }
    }
}
