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

/// A finished image, and what made it.
pub struct Assembled {
    pub image: Vec<u8>,
    pub kind: ImageKind,
    /// Name and version.
    pub assembler: String,
}

/// Why an assembler made no machine code.
#[derive(Debug)]
enum Rejection {
    /// It does not know the device's architecture.
    Architecture,
    /// Its own words about the PTX.
    Ptx(String),
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

    /// Assembles `ptx` for `device` ("sm_90"). A device that is newer than the assembler gets the PTX: its driver knows it.
    pub fn assemble(&self, ptx: &str, device: &str) -> Result<Assembled, BuildError> {
        let assembled = match self {
            Self::NvJitLink(library) => library.assemble(ptx, device),
            Self::Ptxas(program) => program.assemble(ptx, device),
            Self::Driver => Err(Rejection::Architecture),
        };
        match assembled {
            Ok(image) => Ok(Assembled { image, kind: ImageKind::Cubin, assembler: self.name() }),
            Err(Rejection::Architecture) => {
                Ok(Assembled { image: [ptx.as_bytes(), b"\0"].concat(), kind: ImageKind::Ptx, assembler: Self::Driver.name() })
            }
            Err(Rejection::Ptx(message)) => Err(BuildError::Assemble { assembler: self.name(), message }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_newer_than_the_assembler_gets_ptx() {
        let ptx = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
        let assembled = Assembler::find().assemble(ptx, "sm_999").unwrap();
        assert_eq!(assembled.kind, ImageKind::Ptx);
        assert_eq!(assembled.image, [ptx.as_bytes(), b"\0"].concat());
    }
}
