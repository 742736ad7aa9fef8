//! A recording made by hand, like the recorder's for a launch of `kernel.ll`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
// Links LLVM, which inkwell only declares.
use mneme_compiler as _;
use mneme_model::hash::checksum;
use mneme_model::launch::{Dim3, Moment};
use mneme_recording::database::{self, ArgumentLayout, InstanceDetails, InstanceRecord, KernelDetails, KernelRecord};
use mneme_recording::manifest::{Allocation, AllocationKind, Header, MemoryState, RecordedArgument, RecordedVariable};
use mneme_recording::store::StoreWriter;
use tempfile::TempDir;

/// Not a multiple of chunks, nor of 8-byte words.
pub const ELEMENTS: i32 = 100_001;
const STEP: i32 = 7;
pub const DATA: u64 = 0x1000_0000_0000;
const COUNTER: u64 = 0x1100_0000_0000;
const CONSTANT: u64 = 0x1100_0040_0000;

/// The vendor of a recording's GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vendor {
    Nvidia,
    Amd,
}

pub struct Recording {
    folder: TempDir,
}

impl Recording {
    /// On an NVIDIA GPU.
    pub fn make() -> Self {
        Self::on(Vendor::Nvidia)
    }

    /// On an AMD GPU, whose program has the same kernel.
    pub fn make_amd() -> Self {
        Self::on(Vendor::Amd)
    }

    fn on(vendor: Vendor) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("RecordedIR_42.bc"), bitcode(vendor)).unwrap();
        let store = StoreWriter::open(folder.path(), 1).unwrap();
        // The last quarter is zeros: chunks that are not stored.
        let before: Vec<i32> =
            (0..ELEMENTS).map(|i| if i < ELEMENTS / 4 * 3 { i.wrapping_mul(31) } else { 0 }).collect();
        let after: Vec<i32> = before.iter().map(|value| value.wrapping_add(STEP)).collect();
        let arguments = [(0, DATA.to_le_bytes().to_vec()), (8, ELEMENTS.to_le_bytes().to_vec())]
            .map(|(offset, bytes)| RecordedArgument { offset, bytes });
        let prologue = state(&store, Moment::Prologue, &before, 5, arguments.to_vec());
        let epilogue = state(&store, Moment::Epilogue, &after, 5 + ELEMENTS, Vec::new());
        store.sync().unwrap();
        store.finish().unwrap();
        let instance = InstanceRecord {
            prologue: "DeviceState.prologue.42.7.mneme".into(),
            epilogue: "DeviceState.epilogue.42.7.mneme".into(),
            block_dims: Dim3::new(128, 1, 1),
            grid_dims: Dim3::new((ELEMENTS as u32).div_ceil(128), 1, 1),
            shared_mem: 0,
            args: vec![DATA, ELEMENTS as u64],
            occurrences: 1,
            ours: InstanceDetails::default(),
        };
        prologue.save(&folder.path().join(&instance.prologue)).unwrap();
        epilogue.save(&folder.path().join(&instance.epilogue)).unwrap();
        database::add_instance(folder.path(), &kernel(vendor), "7", instance).unwrap();
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn database(&self) -> PathBuf {
        self.folder.path().join("42.json")
    }
}

fn state(
    store: &StoreWriter,
    moment: Moment,
    data: &[i32],
    counter: i32,
    arguments: Vec<RecordedArgument>,
) -> MemoryState {
    let bytes = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let contents = [bytes(&[STEP]), bytes(&[counter]), bytes(data)];
    let variable = |name: &str, address, constant| RecordedVariable {
        name: name.into(),
        address,
        size: 4,
        constant,
        code: false,
        functions: Vec::new(),
    };
    MemoryState {
        header: Header {
            moment,
            variables: vec![variable("step", CONSTANT, true), variable("counter", COUNTER, false)],
            allocations: vec![Allocation {
                address: DATA,
                size: contents[2].len() as u64,
                kind: AllocationKind::Arena,
                ..Allocation::default()
            }],
            arguments,
            ..Header::default()
        },
        chunks: contents.iter().map(|contents| store.put_region(contents).unwrap()).collect(),
    }
}

fn kernel(vendor: Vendor) -> KernelRecord {
    let (device_arch, ir_arch, triple) = match vendor {
        Vendor::Nvidia => ("sm_90", "sm_90", "nvptx64-nvidia-cuda"),
        Vendor::Amd => ("gfx90a:sramecc+:xnack-", "gfx90a", "amdgcn-amd-amdhsa"),
    };
    let argument = |offset, size| ArgumentLayout { offset, size, kind: String::new() };
    KernelRecord {
        static_hash: 42,
        arena_address: format!("0x{DATA:016x}"),
        arena_size: 1 << 30,
        kernel_name: "_Z6updatePii".into(),
        demangled_name: "update(int*, int)".into(),
        modules: vec!["RecordedIR_42.bc".into()],
        binary_blobs: Vec::new(),
        arg_names: vec![String::new(); 2],
        specializations: vec![false, true],
        instances: BTreeMap::new(),
        ours: KernelDetails {
            format: database::VERSION,
            device: "a GPU".into(),
            device_arch: device_arch.into(),
            ir_arch: ir_arch.into(),
            triple: triple.into(),
            arguments: vec![argument(0, 8), argument(8, 4)],
            module_checksums: vec![checksum(&bitcode(vendor))],
            version: env!("CARGO_PKG_VERSION").into(),
            ..KernelDetails::default()
        },
    }
}

fn bitcode(vendor: Vendor) -> Vec<u8> {
    let text = match vendor {
        Vendor::Nvidia => include_str!("kernel.ll").to_owned(),
        Vendor::Amd => for_amd(include_str!("kernel.ll")),
    };
    let text = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "kernel.ll");
    let context = Context::create();
    let module = context.create_module_from_ir(text).unwrap_or_else(|error| panic!("{error}"));
    module.write_bitcode_to_memory().as_slice().to_vec()
}

/// The same kernel as clang compiles it for gfx90a.
fn for_amd(text: &str) -> String {
    const LAYOUT: &str = "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-\
         p8:128:128-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-\
         v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9";
    // The size of a block is among the hidden arguments.
    const SIZE: &str = "%hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n  \
         %sizes = getelementptr i8, ptr addrspace(4) %hidden, i64 12\n  \
         %size = load i16, ptr addrspace(4) %sizes\n  %ntid = zext i16 %size to i32";
    text.replace("e-i64:64-i128:128-v16:16-v32:32-n16:32:64", LAYOUT)
        .replace("nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa")
        .replace("%ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()", SIZE)
        .replace(
            "declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()",
            "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()",
        )
        .replace("llvm.nvvm.read.ptx.sreg.tid.x", "llvm.amdgcn.workitem.id.x")
        .replace("llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.amdgcn.workgroup.id.x")
        .replace(
            "define void @_Z6updatePii(ptr %data, i32 %n) {",
            "define amdgpu_kernel void @_Z6updatePii(ptr %data, i32 %n) #0 {",
        )
        .lines()
        .filter(|line| !line.contains("nvvm.annotations") && !line.contains("!\"kernel\""))
        .map(|line| line.to_owned() + "\n")
        .collect::<String>()
        + "attributes #0 = { \"target-cpu\"=\"gfx90a\" \"amdgpu-flat-work-group-size\"=\"1,1024\" }\n\
           !llvm.module.flags = !{!9}\n!9 = !{i32 1, !\"amdhsa_code_object_version\", i32 500}\n"
}
