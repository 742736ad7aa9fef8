//! The PTX of an image, which runs if the image has no LLVM IR.

use std::borrow::Cow;

use mneme_image::fatbin::{self, FatbinKind};
use mneme_image::ptx::{self, PtxModule};
use mneme_model::architecture::Architecture;

use crate::driver::attributes::CAPABILITY;

/// The PTX that a driver would compile for a GPU of the device's capability.
pub struct PtxCode {
    /// "sm_90"
    pub arch: String,
    pub text: String,
    /// Names, and the offset and size of each parameter in bytes.
    pub kernels: Vec<(String, Vec<(u32, u32)>)>,
    pub variables: Vec<String>,
}

/// The result of the search in an image.
pub enum FoundPtx {
    Fitting(PtxCode),
    /// The image has PTX for newer GPUs only; this is the oldest.
    Newer(Architecture),
    None,
}

/// Finds the newest PTX of an image that fits the device.
pub fn of(image: &[u8]) -> FoundPtx {
    let device = (CAPABILITY.0 * 10 + CAPABILITY.1) as u32;
    let mut texts: Vec<(Architecture, Cow<'_, [u8]>)> = Vec::new();
    if ptx::is_ptx(image) {
        let end = image.iter().position(|byte| *byte == 0).unwrap_or(image.len());
        let architecture = std::str::from_utf8(&image[..end])
            .ok()
            .and_then(|text| PtxModule::parse(text).target())
            .and_then(Architecture::parse);
        texts.extend(architecture.map(|architecture| (architecture, Cow::Borrowed(&image[..end]))));
    } else {
        let entries = fatbin::entries(image).into_iter().filter(|entry| entry.kind == FatbinKind::Ptx);
        texts.extend(entries.filter_map(|entry| Some((entry.architecture, entry.contents()?.into_owned().into()))));
    }
    let (mut fitting, newer): (Vec<_>, Vec<_>) =
        texts.into_iter().partition(|(architecture, _)| architecture.ptx_compiles_for(device));
    fitting.sort_by_key(|(architecture, _)| std::cmp::Reverse(*architecture));
    let code = fitting.iter().find_map(|(architecture, text)| read(*architecture, std::str::from_utf8(text).ok()?));
    match (code, newer.iter().map(|(architecture, _)| *architecture).min()) {
        (Some(code), _) => FoundPtx::Fitting(code),
        (None, Some(architecture)) => FoundPtx::Newer(architecture),
        (None, None) => FoundPtx::None,
    }
}

fn read(architecture: Architecture, text: &str) -> Option<PtxCode> {
    let module = PtxModule::parse(text);
    let kernels: Vec<_> =
        module.kernels().map(|kernel| (kernel.to_owned(), module.parameters(kernel).unwrap_or_default())).collect();
    let variables: Vec<String> = module.variables().map(str::to_owned).collect();
    let is_code = !(kernels.is_empty() && variables.is_empty());
    is_code.then(|| PtxCode { arch: architecture.to_string(), text: text.to_owned(), kernels, variables })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(target: &str) -> String {
        format!(
            ".version 8.0\n.target {target}\n.address_size 64\n.visible .global .align 4 .u32 n;\n\
             .visible .entry k(.param .u64 a, .param .u32 b) {{ ret; }}\n\0"
        )
    }

    #[test]
    fn ptx_that_a_driver_would_compile_is_taken() {
        for target in ["sm_75", "sm_90", "sm_90a"] {
            let text = text(target);
            let FoundPtx::Fitting(code) = of(text.as_bytes()) else { panic!("{target}") };
            assert_eq!((code.arch.as_str(), code.text.as_str()), (target, text.trim_end_matches('\0')));
            assert_eq!(code.kernels, [("k".to_owned(), vec![(0, 8), (8, 4)])]);
            assert_eq!(code.variables, ["n"]);
        }
        assert!(matches!(of(text("sm_100").as_bytes()), FoundPtx::Newer(newer) if newer.number == 100));
        assert!(matches!(of(b"\x7fELF"), FoundPtx::None) && matches!(of(b""), FoundPtx::None));
    }
}
