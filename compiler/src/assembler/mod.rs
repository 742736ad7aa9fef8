//! Assembles PTX into machine code, as whole programs.
//!
//! It uses nvPTXCompiler or, if that is missing, ptxas. If neither is there, the driver compiles the PTX.
//!
//! nvJitLink is not an option: it assembles relocatable code (like `ptxas -c`), whose register allocation differs from
//! that in applications' code. Its linker has no use either, because the IR of a program is linked before.

#[cfg(feature = "planted-faults")]
pub(crate) mod fault;
mod nvptxcompiler;
mod ptxas;
mod spills;

use std::sync::OnceLock;

use mneme_builds::{ImageKind, Spills};
use mneme_model::compile_options::limits_registers;

use crate::error::BuildError;

/// The mode of an assembler, which follows its name.
const WHOLE: &str = ", whole programs";

/// An assembler on this machine.
pub enum Assembler {
    NvPtxCompiler(nvptxcompiler::NvPtxCompiler),
    Ptxas(ptxas::Ptxas),
    /// The driver compiles the PTX when it loads it.
    Driver,
}

/// The options of an assembler, except the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssemblerOptions<'a> {
    /// Optimisation level, 0 to 3.
    pub level: u8,
    /// The most registers per thread, 0 for no limit. PTX that has a limit keeps it.
    pub registers: u32,
    /// Other options, in ptxas's spelling.
    pub others: &'a [String],
    /// Whether the user asked for the options. If not, they are the application's own, and an assembler that lacks one
    /// goes without it.
    pub requested: bool,
}

impl Default for AssemblerOptions<'_> {
    fn default() -> Self {
        Self { level: 3, registers: 0, others: &[], requested: true }
    }
}

impl AssemblerOptions<'_> {
    /// The options in ptxas's spelling, with the one that reports spills.
    fn arguments(self) -> Vec<String> {
        ["-v".into()].into_iter().chain(self.own_arguments()).collect()
    }

    fn own_arguments(self) -> impl Iterator<Item = String> {
        let level = std::iter::once(format!("-O{}", self.level));
        let others = self.others.iter().filter(move |word| self.registers == 0 || !limits_registers(word)).cloned();
        level.chain(others).chain((self.registers > 0).then(|| format!("-maxrregcount={}", self.registers)))
    }

    /// Whether the options can change the code.
    fn matter(self) -> bool {
        self != Self { requested: self.requested, ..Self::default() }
    }
}

/// A finished image, and the assembler that made it.
pub struct Assembled {
    pub image: Vec<u8>,
    pub kind: ImageKind,
    /// `None` if the assembler did not report spills.
    pub spills: Option<Spills>,
    /// The assembler's name and version.
    pub assembler: String,
}

/// Why an assembler made no machine code.
#[derive(Debug)]
enum Rejection {
    /// The assembler does not know the device's architecture.
    Architecture,
    /// The assembler's message about the PTX.
    Ptx(String),
    /// A signal ended the assembler, which may not be the PTX's fault.
    Ended(String),
}

/// How the first assembler of this machine ended another process that made the same code.
static LOST: OnceLock<String> = OnceLock::new();

/// Makes this process avoid the assembler library, because the library ended another process with the same order. `how`
/// describes that end ("was ended by SIGSEGV"). Call this before the process assembles any code.
pub fn do_without_library(how: &str) {
    if let Assembler::NvPtxCompiler(library) = Assembler::find() {
        let _ = LOST.set(format!("{} {how}", library.name()));
    }
}

impl Assembler {
    /// The assembler of this machine, which is searched once per process.
    pub fn find() -> &'static Self {
        static FOUND: OnceLock<Assembler> = OnceLock::new();
        static SECOND: OnceLock<Assembler> = OnceLock::new();
        let program = || ptxas::Ptxas::find().map_or(Self::Driver, Self::Ptxas);
        match LOST.get() {
            None => {
                FOUND.get_or_init(|| nvptxcompiler::NvPtxCompiler::find().map_or_else(program, Self::NvPtxCompiler))
            }
            Some(_) => SECOND.get_or_init(program),
        }
    }

    /// The assembler's name, version and mode, e.g. "nvPTXCompiler 13.0, whole programs".
    pub fn name(&self) -> String {
        match self {
            Self::NvPtxCompiler(library) => library.name() + WHOLE,
            Self::Ptxas(program) => program.name() + WHOLE,
            Self::Driver => "the driver's PTX compiler".into(),
        }
    }

    /// Assembles `ptx`, which contains `kernel`, for `device` ("sm_90"). If the device is newer than the assembler, the
    /// result is the PTX, because the device's driver knows it.
    pub fn assemble(
        &self,
        ptx: &str,
        kernel: &str,
        device: &str,
        options: AssemblerOptions<'_>,
    ) -> Result<Assembled, BuildError> {
        #[cfg(feature = "planted-faults")]
        let ptx = &*fault::plant(ptx, options.level);
        let assembled = match self {
            Self::NvPtxCompiler(library) => library.assemble(ptx, device, options),
            Self::Ptxas(program) => program.assemble(ptx, device, options),
            Self::Driver => Err(Rejection::Architecture),
        };
        // The driver knows the PTX version of the toolkit that the recorded program was built with.
        let assembled = assembled.map_err(|rejection| match rejection {
            Rejection::Ptx(words) if words.contains("Unsupported .version") => Rejection::Architecture,
            other => other,
        });
        let mut remarks: Vec<String> = LOST.get().cloned().into_iter().collect();
        let named = |assembler: &Self, remarks: &[String]| match remarks {
            [] => assembler.name(),
            remarks => format!("{} ({})", assembler.name(), remarks.join("; ")),
        };
        match assembled {
            Ok((image, log)) => Ok(Assembled {
                image,
                kind: ImageKind::Cubin,
                spills: spills::of(&log, kernel),
                assembler: named(self, &remarks),
            }),
            // The process that loads the PTX runs the driver's compiler, without options.
            Err(Rejection::Architecture) if options.requested && options.matter() => Err(BuildError::Configuration {
                message: format!(
                    "ptx_opt, ptxas_options and maxnreg need an assembler that knows {device} and this version of PTX, which {} does not; install a newer nvPTXCompiler or ptxas",
                    self.name()
                ),
            }),
            Err(Rejection::Ended(how)) if options.requested && options.matter() => {
                Err(BuildError::Assemble { assembler: self.name(), message: how })
            }
            Err(left @ (Rejection::Architecture | Rejection::Ended(_))) => {
                if let Rejection::Ended(how) = left {
                    remarks.push(format!("{} {how}", self.name()));
                }
                if options.matter() {
                    remarks.push(format!("without {}", options.own_arguments().collect::<Vec<_>>().join(" ")));
                }
                let image = [ptx.as_bytes(), b"\0"].concat();
                Ok(Assembled { image, kind: ImageKind::Ptx, spills: None, assembler: named(&Self::Driver, &remarks) })
            }
            Err(Rejection::Ptx(message)) => Err(BuildError::Assemble { assembler: self.name(), message }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_and_limit_is_taken() {
        let load = |register: usize| format!("ld.global.f32 %f{register}, [%rd1+{}];", register * 4);
        let add = |register: usize| format!("fma.rn.f32 %f0, %f0, %f{register}, %f{register};");
        let body: String = (0..100).map(load).chain((1..100).map(add)).collect::<Vec<_>>().join("\n");
        // Every value is needed until the end.
        let stores: String = (1..100)
            .map(|register| format!("st.global.f32 [%rd1+{}], %f{};\n", register * 4, 100 - register))
            .collect();
        let ptx = format!(
            ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {{ .reg .f32 %f<100>; .reg .b64 %rd<2>;\n\
             ld.param.u64 %rd1, [p];\n{body}\n{stores}\nst.global.f32 [%rd1], %f0; ret; }}\n"
        );
        let assemble = |options| Assembler::find().assemble(&ptx, "k", "sm_90", options).unwrap();
        let images: Vec<Vec<u8>> =
            (0..=3).map(|level| assemble(AssemblerOptions { level, ..AssemblerOptions::default() }).image).collect();
        if assemble(AssemblerOptions::default()).kind == ImageKind::Cubin {
            assert_eq!(images[3], assemble(AssemblerOptions::default()).image);
            assert_ne!(images[0], images[3]);
            assert_ne!(images[1], images[3]);
            let narrow = assemble(AssemblerOptions { registers: 24, ..AssemblerOptions::default() });
            assert_ne!(narrow.image, images[3]);
            assert_eq!(assemble(AssemblerOptions::default()).spills, Some(Spills::default()));
            assert!(narrow.spills.is_some_and(|spills| spills.stores > 0 && spills.loads > 0), "{:?}", narrow.spills);
        }
    }

    #[test]
    fn a_device_newer_than_the_assembler_gets_ptx() {
        let ptx = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
        let assembled = Assembler::find().assemble(ptx, "k", "sm_999", AssemblerOptions::default()).unwrap();
        assert_eq!(assembled.kind, ImageKind::Ptx);
        assert_eq!(assembled.image, [ptx.as_bytes(), b"\0"].concat());
        let error = Assembler::find()
            .assemble(ptx, "k", "sm_999", AssemblerOptions { level: 1, ..AssemblerOptions::default() })
            .err()
            .unwrap();
        assert!(error.is_usage() && error.to_string().contains("sm_999"), "{error}");
        let others = ["--fmad=false".to_owned()];
        let recorded = AssemblerOptions { level: 1, others: &others, requested: false, ..AssemblerOptions::default() };
        let assembled = Assembler::find().assemble(ptx, "k", "sm_999", recorded).unwrap();
        assert_eq!(assembled.assembler, "the driver's PTX compiler (without -O1 --fmad=false)");
    }
}
