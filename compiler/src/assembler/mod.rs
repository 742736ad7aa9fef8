//! PTX to machine code: nvJitLink, else ptxas, else left to the driver's compiler.

mod nvjitlink;
mod places;
mod ptxas;

use std::sync::OnceLock;

use crate::request::{BuildError, ImageKind};

/// What assembles PTX on this machine.
pub enum Assembler {
    NvJitLink(nvjitlink::NvJitLink),
    Ptxas(ptxas::Ptxas),
    /// The driver compiles the PTX when it loads it.
    Driver,
}

impl Assembler {
    /// The assembler of this machine, looked for once a process.
    pub fn find() -> &'static Self {
        static FOUND: OnceLock<Assembler> = OnceLock::new();
        FOUND.get_or_init(|| {
            if let Some(library) = nvjitlink::NvJitLink::find() {
                return Self::NvJitLink(library);
            }
            ptxas::Ptxas::find().map_or(Self::Driver, Self::Ptxas)
        })
    }

    /// Name and version, e.g. "nvJitLink 12.9".
    pub fn name(&self) -> String {
        match self {
            Self::NvJitLink(library) => library.name(),
            Self::Ptxas(program) => program.name(),
            Self::Driver => "the driver's PTX compiler".into(),
        }
    }

    /// Assembles `ptx` for `device` ("sm_90").
    pub fn assemble(&self, ptx: &str, device: &str) -> Result<(Vec<u8>, ImageKind), BuildError> {
        let rejected = |message| BuildError::Assemble { assembler: self.name(), message };
        match self {
            Self::NvJitLink(library) => Ok((library.assemble(ptx, device).map_err(rejected)?, ImageKind::Cubin)),
            Self::Ptxas(program) => Ok((program.assemble(ptx, device).map_err(rejected)?, ImageKind::Cubin)),
            Self::Driver => Ok(([ptx.as_bytes(), b"\0"].concat(), ImageKind::Ptx)),
        }
    }
}
