//! Targets for device code as compilers pack it.
//!
//! They are fat binaries, cubins, offload bundles and PTX.

use std::path::Path;
use std::process::Command;

use mneme_image::{bundle, cubin, elf, embedded, fatbin, ptx};

use super::{FuzzTarget, nothing};

pub const FATBIN: FuzzTarget = FuzzTarget { name: "fatbin", seeds: fatbin_seeds, seal: nothing, run: run_fatbin };
pub const CUBIN: FuzzTarget = FuzzTarget { name: "cubin", seeds: cubin_seeds, seal: nothing, run: run_cubin };
pub const BUNDLE: FuzzTarget = FuzzTarget { name: "bundle", seeds: bundle_seeds, seal: nothing, run: run_bundle };
pub const PTX: FuzzTarget = FuzzTarget { name: "ptx", seeds: ptx_seeds, seal: nothing, run: run_ptx };

const TEXT: &str = ".version 7.8\n.target sm_70\n.address_size 64\n.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
    .global .align 4 .u32 state = 7;\n.const .align 8 .u64 table[2] = {state, generic(state)};\n\
    .func (.param .b32 out) helper(.param .b32 in) { .reg .u32 %r<3>; ld.param.u32 %r1, [in]; st.param.b32 [out], %r1; ret; }\n\
    // a comment\n\
    .visible .entry k(.param .u64 p, .param .align 8 .b8 q[24]) .maxntid 64, 1, 1 {\n .reg .u64 %rd<4>; .reg .u32 %r<4>;\n\
    ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1; ld.global.u32 %r1, [state];\n\
    { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), helper, (a); ld.param.b32 %r2, [b]; }\n\
    st.global.u32 [%rd2], %r2; ret; }\n";

fn container(entries: &[(u16, u32, u64, &[u8], u64)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, architecture, flags, stored, raw) in entries {
        let padded = stored.len().next_multiple_of(8);
        let mut header = [0u8; 64];
        header[0..2].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&64u32.to_le_bytes());
        header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        header[16..20].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        header[28..32].copy_from_slice(&architecture.to_le_bytes());
        header[40..48].copy_from_slice(&flags.to_le_bytes());
        header[56..64].copy_from_slice(&raw.to_le_bytes());
        body.extend(header);
        body.extend(*stored);
        body.resize(body.len() + padded - stored.len(), 0);
    }
    let mut image = 0xba55_ed50_u32.to_le_bytes().to_vec();
    image.extend([1, 0, 16, 0]);
    image.extend((body.len() as u64).to_le_bytes());
    image.extend(body);
    image
}

fn fatbin_seeds() -> Vec<Vec<u8>> {
    let text = TEXT.as_bytes();
    let lz4 = lz4_flex::block::compress(text);
    let zstd = zstd::bulk::compress(text, 3).expect("it can be compressed");
    let inner = container(&[(1, 70, 0x11, text, 0)]);
    let size = text.len() as u64;
    let whole = container(&[
        (1, 80, 0x11, text, 0),
        (1, 90, 0x2011, &lz4, size),
        (1, 90, 0x10_8011, &zstd, size),
        (2, 90, 0x11, b"\x7fELF\x02\x01", 0),
        (16, 90, 0x11, &inner, 0),
    ]);
    assert_eq!(fatbin::entries(&whole).len(), 5, "the seed is well-formed");
    // Much from little: 2 MiB of zeros in a few bytes.
    let blocks = std::iter::repeat_n([0x02, 0x00, 0x10, 0x00], 16).flatten();
    let bomb: Vec<u8> = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58].into_iter().chain(blocks).collect();
    vec![
        whole,
        inner,
        container(&[(1, 90, 0x10_8011, &bomb, 1 << 28)]),
        container(&[(1, 90, 0x10_8011, &bomb, 1 << 32)]),
    ]
}

fn run_fatbin(input: &[u8]) {
    fatbin::size(input);
    let entries = fatbin::entries(input);
    for entry in entries.iter().take(8) {
        entry.contents();
        fatbin::source_of(&entries, entry);
    }
    fatbin::loaded(&entries, 90);
}

/// A cubin of the toolkit's assembler, where there is one, and the frame of one.
fn cubin_seeds() -> Vec<Vec<u8>> {
    let mut frame = (super::image::ELF.seeds)().swap_remove(0);
    frame[18..20].copy_from_slice(&190u16.to_le_bytes());
    let mut seeds = vec![frame];
    let assembler = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/cuda/bin/ptxas");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, image) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
    std::fs::write(&text, TEXT).expect("a temporary file can be written");
    if let Ok(run) = Command::new(assembler).arg("-arch=sm_90").arg(&text).arg("-o").arg(&image).output() {
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        seeds.push(std::fs::read(image).expect("just written"));
        assert!(cubin::parse(&seeds[1]).is_some_and(|cubin| cubin.kernels.len() == 1), "the seed is well-formed");
    }
    seeds
}

fn run_cubin(input: &[u8]) {
    elf::size_of(input);
    embedded::in_object(input);
    if let Some(cubin) = cubin::parse(input) {
        embedded::in_cubin(input, &cubin);
        for kernel in cubin.kernels.iter().take(8) {
            cubin.undefined(kernel);
        }
        for variable in &cubin.variables {
            cubin::contents(input, variable);
        }
    }
}

fn bundle_seeds() -> Vec<Vec<u8>> {
    const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    let parts: [(&str, &[u8]); 2] =
        [("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx90a", b"\x7fELF\x02\x01 and so on")];
    let mut offset = MAGIC.len() + 8 + parts.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut plain = [MAGIC, &2u64.to_le_bytes()].concat();
    for (id, bytes) in parts {
        for number in [offset, bytes.len(), id.len()] {
            plain.extend((number as u64).to_le_bytes());
        }
        plain.extend(id.as_bytes());
        offset += bytes.len();
    }
    parts.iter().for_each(|(_, bytes)| plain.extend(*bytes));
    let stored = zstd::bulk::compress(&plain, 3).expect("it can be compressed");
    let mut compressed = b"CCOB".to_vec();
    compressed.extend([2, 0, 1, 0]);
    compressed.extend((stored.len() as u32 + 24).to_le_bytes());
    compressed.extend((plain.len() as u32).to_le_bytes());
    compressed.extend([0; 8]);
    compressed.extend(stored);
    assert_eq!(bundle::plain(&compressed).as_deref(), Some(&plain[..]), "the seed is well-formed");
    vec![plain, compressed]
}

fn run_bundle(input: &[u8]) {
    if let Some(plain) = bundle::plain(input) {
        for entry in bundle::entries(&plain).iter().take(8) {
            entry.processor();
            embedded::in_code_object(entry.bytes);
        }
    }
}

fn ptx_seeds() -> Vec<Vec<u8>> {
    vec![TEXT.as_bytes().to_vec()]
}

fn run_ptx(input: &[u8]) {
    ptx::is_ptx(input);
    let text = String::from_utf8_lossy(input);
    let module = ptx::PtxModule::parse(&text);
    for kernel in module.kernels().take(8) {
        module.closure(kernel);
    }
    ptx::with_visible_variables(&text);
}
