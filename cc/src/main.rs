//! The program `mneme-cc`, which adds the LLVM IR of device code to a compiler's objects.
//!
//! It stands in front of a compiler like ccache (`mneme-cc clang++ …`) or replaces it (`mneme-clang++ …`). The compiler
//! first does its own job, with its own messages and status. mneme-cc's work comes after that.

// `print!` panics when the stream is closed. Use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod arguments;
mod beside;
mod builder;
mod clang;
mod cpu_object;
mod device_only;
mod elf;
mod family;
mod help;
mod hip;
mod log;
mod nvcc;
mod process;
mod records;
mod wrapper;

// The program has no LLVM, but a test writes an object with it: the compiler links it.
#[cfg(test)]
use mneme_compiler as _;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use arguments::Dialect;
use family::CompilerFamily;
use process::ACTIVE;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let own_name = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    if let Err(wrong) = mneme_system::install::check_home() {
        mneme_system::remark!("mneme-cc: {wrong}");
        return ExitCode::from(mneme_system::exit::BAD_USAGE as u8);
    }
    let status = match wrapper::compiler_of(Path::new(&own_name)) {
        Some(Ok(compiler)) => compile(&compiler, arguments),
        Some(Err(message)) => Err(message),
        None => launch(arguments),
    };
    match status {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            mneme_system::remark!("mneme-cc: {error:#}");
            ExitCode::from(mneme_system::exit::BAD_USAGE as u8)
        }
    }
}

fn launch(mut arguments: Vec<OsString>) -> anyhow::Result<u8> {
    match arguments.first().and_then(|first| first.to_str()) {
        None | Some("--help" | "-h" | "-help") => {
            mneme_system::console::write(help::TEXT)?;
            Ok(0)
        }
        Some("--version" | "-V") => {
            let versions = builder::versions();
            mneme_system::console::write(&format!("mneme-cc {} ({versions})\n", env!("CARGO_PKG_VERSION")))?;
            Ok(0)
        }
        Some("--generate") => {
            mneme_manual::write_if_requested(help::command);
            anyhow::bail!("--generate takes a kind of file and a folder for it, as in scripts/install")
        }
        Some("--mneme-cpu-object") => cpu_object::run(&arguments[1..]),
        Some(option) if option.starts_with('-') => {
            anyhow::bail!("it takes a compiler and its arguments, but '{option}' is neither; see mneme-cc --help")
        }
        Some(_) => {
            let compiler = arguments.remove(0);
            compile(Path::new(&compiler), arguments)
        }
    }
}

fn compile(compiler: &Path, arguments: Vec<OsString>) -> anyhow::Result<u8> {
    if std::env::var_os(ACTIVE).is_some() {
        return family::pass_through(compiler, &arguments);
    }
    match CompilerFamily::of(compiler) {
        CompilerFamily::Clang => clang::run(compiler, &arguments, Dialect::Clang),
        CompilerFamily::Hipcc if hip::is_for_nvidia() => {
            mneme_system::remark!(
                "mneme-cc: {} runs unchanged, because it runs nvcc here: its kernels get no LLVM IR",
                compiler.display()
            );
            family::pass_through(compiler, &arguments)
        }
        CompilerFamily::Hipcc => clang::run(compiler, &arguments, Dialect::Hipcc { cxx: hip::takes_cxx() }),
        CompilerFamily::Nvcc => nvcc::run(compiler, &arguments),
        CompilerFamily::Host => family::pass_through(compiler, &arguments),
        CompilerFamily::Launcher => behind_launcher(compiler, arguments),
        CompilerFamily::Unknown => {
            mneme_system::remark!(
                "mneme-cc: {} runs unchanged: mneme-cc does not know this compiler (clang, hipcc and nvcc are supported)",
                compiler.display()
            );
            family::pass_through(compiler, &arguments)
        }
    }
}

/// Runs a launcher of compilers, unless the command makes device code: for code from a cache or from another machine,
/// the compiler logs nothing here. Then the compiler runs without the launcher.
fn behind_launcher(launcher: &Path, mut arguments: Vec<OsString>) -> anyhow::Result<u8> {
    let is_launcher = |word: &OsString| CompilerFamily::of(Path::new(word)) == CompilerFamily::Launcher;
    let others = arguments.iter().take_while(|word| is_launcher(word)).count();
    let makes_device_code =
        arguments[others..].split_first().is_some_and(|(compiler, rest)| {
            match CompilerFamily::of(Path::new(compiler)) {
                CompilerFamily::Clang => clang::makes_device_code(rest, Dialect::Clang),
                CompilerFamily::Hipcc if !hip::is_for_nvidia() => {
                    clang::makes_device_code(rest, Dialect::Hipcc { cxx: hip::takes_cxx() })
                }
                CompilerFamily::Nvcc => nvcc::makes_device_code(rest),
                _ => false,
            }
        });
    if !makes_device_code {
        return family::pass_through(launcher, &arguments);
    }
    let rest = arguments.split_off(others + 1);
    compile(Path::new(&arguments[others]), rest)
}
