//! Targets for the files of a recording.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use mneme_model::checked_text::write_checksum;
use mneme_model::hash::{ChunkId, checksum, chunk_id};
use mneme_model::images::{ImageObject, ImageResource, Images, RecordedArray, TEXTURE_WORDS, Texel};
use mneme_model::launch::{Dim3, Moment};
use mneme_recording::database::{
    ArgumentLayout, InstanceDetails, InstanceRecord, KernelDetails, KernelRecord, VERSION,
};
use mneme_recording::manifest::{Allocation, AllocationKind, Header, MemoryState, RecordedArgument, RecordedVariable};
use mneme_recording::pack::{PackReader, PackWriter};

use super::{FuzzTarget, nothing};

pub const DATABASE: FuzzTarget =
    FuzzTarget { name: "database", seeds: database_seeds, seal: write_checksum, run: run_database };
pub const MANIFEST: FuzzTarget =
    FuzzTarget { name: "manifest", seeds: manifest_seeds, seal: seal_manifest, run: run_manifest };
pub const PACK: FuzzTarget = FuzzTarget { name: "pack", seeds: pack_seeds, seal: nothing, run: run_pack };

fn database_seeds() -> Vec<Vec<u8>> {
    let instance = InstanceRecord {
        prologue: "DeviceState.prologue.42.7.mneme".into(),
        epilogue: "DeviceState.epilogue.42.7.mneme".into(),
        block_dims: Dim3::new(256, 1, 1),
        grid_dims: Dim3::new(4, 1, 1),
        shared_mem: 0,
        args: vec![1, u64::MAX],
        occurrences: 1,
        ours: InstanceDetails::default(),
    };
    let ours = KernelDetails {
        format: VERSION,
        arguments: vec![ArgumentLayout { offset: 0, size: 8, kind: "ptr".into() }],
        module_checksums: vec![77],
        ..KernelDetails::default()
    };
    let record = |ours| KernelRecord {
        static_hash: 42,
        arena_address: "0x0000100000000000".into(),
        arena_size: 1 << 41,
        kernel_name: "_Z1kv".into(),
        demangled_name: "k()".into(),
        modules: vec!["RecordedIR_42.bc".into()],
        binary_blobs: vec![],
        arg_names: vec!["x".into()],
        specializations: vec![true],
        instances: [("7".to_owned(), instance.clone())].into(),
        ours,
    };
    let text = |record: &KernelRecord| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("42.json");
        record.save(&path).and_then(|()| KernelRecord::load(&path)).expect("the seed is well-formed");
        std::fs::read(path).expect("just written")
    };
    vec![text(&record(ours)), text(&record(KernelDetails::default()))]
}

fn run_database(input: &[u8]) {
    if let Ok(record) = KernelRecord::parse(Path::new("42.json"), input) {
        let _ = record.instance(Path::new("42.json"), None);
        serde_json::to_vec(&record).expect("what was read can be written");
    }
}

fn manifest_seeds() -> Vec<Vec<u8>> {
    let texel = Texel { format: 3, channels: 1 };
    let object =
        |handle, resource| ImageObject { handle, resource, texture: Some([0; TEXTURE_WORDS]), view: Vec::new() };
    let header = Header {
        moment: Moment::Prologue,
        variables: vec![RecordedVariable {
            name: "v".into(),
            address: 0x2000,
            size: 16,
            constant: true,
            code: false,
            functions: vec![8],
        }],
        allocations: vec![
            // Fields that others add have their defaults.
            serde_json::from_value::<Allocation>(
                serde_json::json!({"address": 0x1000_0000_0000u64, "size": 200_000, "kind": "arena"}),
            )
            .expect("the seed is well-formed"),
            Allocation { address: 0x4000, size: 64, kind: AllocationKind::Array, ..Allocation::default() },
        ],
        arguments: vec![RecordedArgument { offset: 0, bytes: vec![1; 8] }],
        images: Images {
            arrays: vec![RecordedArray { address: 0x4000, width: 4, height: 2, depth: 2, texel, flags: 2 }],
            objects: vec![
                object(1, ImageResource::Array(0)),
                object(2, ImageResource::Linear { address: 0x1000_0000_0000, texel, bytes: 40 }),
            ],
        },
        pair: Some(7),
    };
    assert_eq!(header.allocations[0].kind, AllocationKind::Arena);
    let of_memory = vec![ChunkId::ZERO, chunk_id(b"1"), chunk_id(b"2"), ChunkId::ZERO];
    let chunks = vec![vec![chunk_id(b"v")], of_memory, vec![chunk_id(b"3")]];
    let state = MemoryState { header, chunks };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("m");
    state.save(&path).and_then(|()| MemoryState::load(&path)).expect("the seed is well-formed");
    vec![std::fs::read(path).expect("just written")]
}

fn seal_manifest(input: &mut [u8]) {
    if let Some(length) = input.len().checked_sub(8) {
        let sum = checksum(&input[..length]);
        input[length..].copy_from_slice(&sum.to_le_bytes());
    }
}

fn run_manifest(input: &[u8]) {
    in_a_file(input, |path| {
        if let Ok(state) = MemoryState::load(path) {
            state.memory_bytes();
            state.parameter_buffer();
            for region in state.regions() {
                for index in 0..region.chunks.len() {
                    region.extent(index);
                }
            }
        }
    });
}

fn pack_seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let chunks = [vec![1u8; 3000], (0..200u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()];
    let mut seeds = Vec::new();
    for finish in [true, false] {
        let inner = tempfile::tempdir_in(folder.path()).expect("a temporary folder");
        let mut writer = PackWriter::create(inner.path(), 1).expect("a pack can be made");
        for chunk in &chunks {
            writer.append(&chunk_id(chunk), chunk).expect("a chunk can be added");
        }
        if finish {
            writer.finish().expect("a pack can be finished");
        } else {
            writer.sync().expect("a pack can be synced");
        }
        for path in mneme_recording::pack::files(inner.path()).expect("it can be listed") {
            seeds.push(std::fs::read(path).expect("just written"));
        }
    }
    assert_eq!(seeds.len(), 2);
    seeds
}

fn run_pack(input: &[u8]) {
    in_a_file(input, |path| {
        if let Ok((reader, entries)) = PackReader::open(path) {
            for (id, location) in entries.iter().take(16) {
                let _ = reader.read(id, location, &mut vec![0; location.raw as usize]);
            }
            let _ = reader.check();
        }
    });
}

/// Calls `read` with the path of a file in memory that holds the input.
pub(super) fn in_a_file(input: &[u8], read: impl FnOnce(&Path)) {
    thread_local! {
        static FILE: (File, PathBuf) = {
            let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
            let file = File::from(nix::sys::memfd::memfd_create("input", flags).expect("a file in memory"));
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            (file, path)
        };
    }
    FILE.with(|(file, path)| {
        file.set_len(0).and_then(|()| file.write_all_at(input, 0)).expect("a file in memory can be written");
        read(path);
    });
}
