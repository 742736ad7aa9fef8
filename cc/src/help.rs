//! The text of `mneme-cc --help`, and the command from which its man page is made.

use clap::{Arg, ArgAction, Command};

pub const TEXT: &str = "\
mneme-cc - makes CUDA and HIP programs recordable: adds the LLVM IR of kernels to the objects that compilers produce

Usage:
  mneme-cc COMPILER [ARGUMENTS…]   run COMPILER and add IR to the objects it writes
  mneme-clang [ARGUMENTS…]         the same, as a wrapper around clang
  mneme-clang++ [ARGUMENTS…]       the same, as a wrapper around clang++

mneme-cc runs your command line unchanged, then adds one section, .mneme.ir, to
the object. For each GPU architecture, the section contains the unit's LLVM
bitcode before any optimisation, and a table of its symbols. The section
survives linking (even with --gc-sections), static archives, strip and
llvm-strip. Messages and exit status are the compiler's own. Command lines that
compile no CUDA or HIP code (C++ sources, links, -E, -S, --version) only run the
compiler.

Code for the device only (--genco, --offload-device-only): code objects for AMD
GPUs get the section themselves. PTX, cubins and relocatable code get none, and
mneme-cc warns once; to record such code from IR, name files with the IR in
MNEME_IR_PATH.

Compilers: clang and amdclang from version 17 on, hipcc, and nvcc. A builder for
clang's version of LLVM, or for a newer one, has to be installed; --version
lists the builders. For nvcc, clang makes the IR from the same source and
options. If it cannot, mneme-cc warns once, and the kernels replay from nvcc's
machine code. Other compilers run unchanged, and so does hipcc if HIP_PLATFORM
makes it run nvcc. COMPILER may be a launcher (ccache, sccache, distcc) with a
compiler behind it: device code is compiled without the launcher, everything
else with it.

HIP: if clang does not find AMD's device libraries, mneme-cc sets
HIP_DEVICE_LIB_PATH to the distribution's. If hipcc's own clang is missing or
older than 17, mneme-cc sets HIP_CLANG_PATH to clang 19. Your own settings of
these variables take precedence.

Examples:
  mneme-cc clang++ -x cuda --cuda-gpu-arch=sm_90 -O3 -c kernels.cu -o kernels.o
  mneme-cc clang++ --offload-arch=sm_80 --offload-arch=sm_90 app.cu -o app -lcudart
  mneme-cc nvcc -arch=sm_90 -O3 app.cu -o app
  mneme-cc clang++ -x hip --offload-arch=gfx90a app.cpp -o app
  mneme-cc hipcc --offload-arch=gfx90a --offload-arch=gfx1100 app.cpp -o app
  mneme-cc hipcc --genco --offload-arch=gfx90a kernels.cpp -o kernels.co
  cmake -B build -DCMAKE_CUDA_COMPILER=clang++ -DCMAKE_CUDA_COMPILER_LAUNCHER=mneme-cc
  CC=$(mneme config cc) CXX=$(mneme config cxx) ./configure

Options (in place of a compiler):
  --help, -h       print this text
  --version, -V    print the version of mneme-cc, and those of LLVM whose builders are installed

Environment:
  MNEME_CLANG      the clang for the wrappers, for nvcc's IR, and for hipcc if its
                   own clang is missing or too old: a program, or a folder with
                   one (default: clang-19, clang or another version on PATH, then
                   /usr/lib/llvm-19/bin)
";

/// The command for the man page. mneme-cc does not parse the compiler's arguments.
pub fn command() -> Command {
    let (title, rest) = TEXT.split_once("\n\n").expect("a title and paragraphs");
    let (usage, rest) = rest.split_once("\n\n").expect("usage and paragraphs");
    let (about, examples) = rest.split_once("\n\nExamples:\n").expect("paragraphs and examples");
    let (examples, environment) = examples.split_once("\n\nOptions (").expect("examples and options");
    let (_, environment) = environment.split_once("\n\nEnvironment:\n").expect("options and environment");
    let (name, does) = title.split_once(" - ").expect("a name and what it does");
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about(does)
        .long_about(format!("{about}\n\n{}", without_columns(usage)))
        .override_usage("mneme-cc COMPILER [ARGUMENTS...]")
        .arg(Arg::new("COMPILER").help("The compiler to run").required(true))
        .arg(Arg::new("ARGUMENTS").help("Its arguments").action(ArgAction::Append))
        .after_long_help(format!("Environment:\n{}\n\nExamples:\n{examples}", without_columns(environment)))
}

/// Converts a table of two columns to lines that a man page can fill: a name, a colon, and the description.
fn without_columns(table: &str) -> String {
    let mut lines = Vec::<String>::new();
    for line in table.lines() {
        let (margin, text) = line.split_at(line.len() - line.trim_start().len());
        match (text.split_once("  "), lines.last_mut()) {
            (Some((name, what)), _) => lines.push(format!("{margin}{name}: {}", what.trim_start())),
            (None, Some(last)) if margin.len() > 2 => *last += &format!(" {text}"),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal_of_120_columns() {
        let long: Vec<&str> = TEXT.lines().filter(|line| line.chars().count() > 120).collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn the_man_page_says_what_the_help_says() {
        let command = command();
        assert_eq!(command.get_name(), "mneme-cc");
        let about = command.get_long_about().unwrap().to_string();
        let more = command.get_after_long_help().unwrap().to_string();
        for part in ["adds the LLVM IR", ".mneme.ir", "mneme-clang++ [ARGUMENTS"] {
            assert!(about.contains(part) || command.get_about().unwrap().to_string().contains(part), "{part}");
        }
        assert!(more.contains("MNEME_CLANG") && more.contains("mneme-cc nvcc -arch=sm_90"), "{more}");
    }
}
