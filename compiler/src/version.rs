//! The version of LLVM that this crate is built with, and constants that depend on it.

/// The major version, e.g. 19.
pub const LLVM_MAJOR: u32 = number(env!("MNEME_LLVM_MAJOR"));

/// The whole version, e.g. "19.1.7".
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

/// Whether launch bounds of NVIDIA's kernels are function attributes (`nvvm.maxntid`) instead of metadata. The back end
/// reads only one form, and LLVM converts metadata to attributes in modules that it reads.
pub(crate) const BOUNDS_ARE_ATTRIBUTES: bool = LLVM_MAJOR >= 21;

/// The newest architecture that the NVPTX back end knows. For later ones, the assembler retargets its PTX.
pub(crate) const NEWEST_NVIDIA: u32 = match LLVM_MAJOR {
    ..=19 => 90,
    20 => 120,
    _ => 121,
};

/// The newest PTX ISA that the back end can emit, times ten. NVIDIA's tools of CUDA 12.9 read 8.8.
pub(crate) const NEWEST_PTX: u32 = match LLVM_MAJOR {
    ..=19 => 85,
    20 => 87,
    _ => 88,
};

/// The first PTX ISA with an architecture, times ten, but at least the default of the back end.
pub(crate) const fn least_ptx(architecture: u32, specific: bool) -> u32 {
    match architecture {
        ..=89 => 78,
        90 if !specific => 78,
        90 => 80,
        100 | 101 => 86,
        120 => 87,
        _ => 88,
    }
}

const fn number(text: &str) -> u32 {
    let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        value = 10 * value + (bytes[at] - b'0') as u32;
        at += 1;
    }
    value
}
