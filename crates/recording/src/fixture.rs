//! A kernel and an instance for tests.

use std::collections::BTreeMap;

use mneme_model::launch::Dim3;

use super::database::{InstanceDetails, InstanceRecord, KernelDetails, KernelRecord, VERSION};

/// Kernel 42, without instances.
pub fn kernel() -> KernelRecord {
    KernelRecord {
        static_hash: 42,
        arena_address: "0x0000100000000000".into(),
        arena_size: 1 << 41,
        kernel_name: "_Z1kv".into(),
        demangled_name: "k()".into(),
        modules: vec!["RecordedIR_42.bc".into()],
        binary_blobs: vec![],
        arg_names: vec![],
        specializations: vec![],
        instances: BTreeMap::new(),
        ours: KernelDetails { format: VERSION, ..KernelDetails::default() },
    }
}

/// Its instance 7.
pub fn instance() -> InstanceRecord {
    InstanceRecord {
        prologue: "DeviceState.prologue.42.7.mneme".into(),
        epilogue: "DeviceState.epilogue.42.7.mneme".into(),
        block_dims: Dim3::new(256, 1, 1),
        grid_dims: Dim3::new(4, 1, 1),
        shared_mem: 0,
        args: vec![1],
        occurrences: 1,
        ours: InstanceDetails::default(),
    }
}
