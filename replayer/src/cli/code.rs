//! Options for other code in the kernel's place, or other passes.

use std::path::PathBuf;

use clap::Args;
use mneme_builds::plan::External;

use crate::build::replacement::ReplacementFile;

#[derive(Args, Debug)]
#[command(next_help_heading = "Other code in the kernel's place")]
pub struct CodeOptions {
    /// LLVM IR with a kernel of the recorded name: assembly (.ll) or bitcode (.bc)
    #[arg(long, value_name = "FILE", group = "code")]
    pub ir: Option<PathBuf>,
    /// CUDA or HIP source with such a kernel, compiled by clang
    #[arg(long, value_name = "FILE", group = "code")]
    pub source: Option<PathBuf>,
    /// PTX with such a kernel; lifted to IR if you name a pipeline or an option needs IR
    #[arg(long, value_name = "FILE", group = "code")]
    pub ptx: Option<PathBuf>,
    /// Machine code (a cubin) with such a kernel
    #[arg(long, value_name = "FILE", group = "code")]
    pub cubin: Option<PathBuf>,
    /// The code that the application ran, as its driver received it
    #[arg(long, group = "code")]
    pub original: bool,
    /// A flag for clang with --source (-I, -D, -std=); may be repeated
    #[arg(long = "source-flag", value_name = "FLAG", requires = "source", allow_hyphen_values = true)]
    pub source_flags: Vec<String>,
    /// The clang that compiles --source [default: clang++-NN of the LLVM that wrote the recorded IR, or clang++-19]
    #[arg(long, value_name = "PROGRAM")]
    pub clang: Option<PathBuf>,

    /// Run the pipeline in this program, an opt of the same LLVM version
    #[arg(long, value_name = "PROGRAM")]
    opt: Option<PathBuf>,
    /// A plugin with passes for --opt [default program: opt-NN of the LLVM that compiles]; may be repeated
    #[arg(long = "load-pass-plugin", value_name = "FILE.so")]
    plugins: Vec<PathBuf>,
    /// A further option for --opt; may be repeated
    #[arg(long = "opt-arg", value_name = "OPTION", allow_hyphen_values = true)]
    opt_arguments: Vec<String>,
}

impl CodeOptions {
    /// The file that contains the code.
    pub fn file(&self) -> Option<ReplacementFile> {
        let source = || {
            let file = self.source.clone()?;
            Some(ReplacementFile::Source { file, compiler: self.clang.clone(), flags: self.source_flags.clone() })
        };
        let ir = self.ir.clone().map(ReplacementFile::Ir);
        let ptx = self.ptx.clone().map(ReplacementFile::Ptx);
        ir.or(ptx).or(self.cubin.clone().map(ReplacementFile::Cubin)).or_else(source)
    }

    /// The program that runs the pipeline, if it is not the builder.
    pub fn external(&self) -> Option<External> {
        let used = self.opt.is_some() || !self.plugins.is_empty() || !self.opt_arguments.is_empty();
        used.then(|| External {
            program: self.opt.clone(),
            // The dynamic linker would search its own folders for a bare name.
            plugins: self
                .plugins
                .iter()
                .map(|plugin| std::path::absolute(plugin).unwrap_or_else(|_| plugin.clone()))
                .collect(),
            arguments: self.opt_arguments.clone(),
        })
    }
}
