//! A code object without code, and the IR that runs instead.

use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest, Sha256};

/// The ELF header of an AMD GPU's code object. The machine number in the flags identifies the processor.
pub fn object(machine: u16, kind: u16, processor: u8) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x40");
    header[16..18].copy_from_slice(&kind.to_le_bytes());
    header[18..20].copy_from_slice(&machine.to_le_bytes());
    header[20] = 1;
    // The (empty) section headers begin at the end.
    header[40] = 64;
    header[48] = processor;
    header[52] = 64;
    header
}

/// A code object for gfx90a.
pub fn gfx90a() -> Vec<u8> {
    object(224, 3, 0x3f)
}

/// A folder with the IR of [`gfx90a`].
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("kernel.ll");
    std::fs::write(&source, include_str!("kernel.ll")).unwrap();
    let name: String = Sha256::digest(gfx90a()).iter().map(|byte| format!("{byte:02x}")).collect();
    let llvm = std::env::var_os("LLVM_SYS_191_PREFIX").map_or_else(|| PathBuf::from("/usr/lib/llvm-19"), PathBuf::from);
    let mut assembler = Command::new(llvm.join("bin/llvm-as"));
    let assembled = assembler.arg("-o").arg(folder.path().join(name + ".bc")).arg(source).status().unwrap();
    assert!(assembled.success());
    folder
}
