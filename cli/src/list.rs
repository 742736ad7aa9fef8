//! The command `mneme ls`, which lists a folder's recorded instances.

use clap::Args;
use mneme_model::text::shorten;
use mneme_model::units;
use mneme_recording::database::InstanceRecord;
use mneme_recording::moments::memory_bytes;
use mneme_recording::poison::PoisonMap;
use serde_json::json;

use crate::error::CommandError;
use crate::output::print;
use crate::selection::{KernelFile, Selection};
use crate::table::{Align, render};

#[derive(Debug, Args)]
pub struct ListOptions {
    #[command(flatten)]
    selection: Selection,
    /// Print JSON, with hashes as strings
    #[arg(long)]
    json: bool,
}

/// Width of the kernel's name, characters.
const NAME_WIDTH: usize = 44;

pub fn run(options: &ListOptions) -> Result<(), CommandError> {
    let mut selected = options.selection.kernels()?;
    selected.kernels.sort_by(|one, other| one.record.demangled_name.cmp(&other.record.demangled_name));
    print_list(options, &selected.kernels)?;
    selected.complete()
}

fn print_list(options: &ListOptions, kernels: &[KernelFile]) -> Result<(), CommandError> {
    let id = options.selection.record_id.as_deref();
    if options.json {
        let described = kernels.iter().map(|kernel| describe(kernel, id)).collect::<Result<Vec<_>, _>>()?;
        return print(&format!("{:#}\n", serde_json::Value::from(described)));
    }
    if kernels.is_empty() {
        return print(&format!("{} contains no recorded kernel\n", options.selection.path().display()));
    }
    use Align::{Left, Right};
    let columns = [Left, Right, Right, Right, Right, Right, Right, Right];
    let mut rows = vec![
        ["KERNEL", "STATIC HASH", "INSTANCE", "GRID", "BLOCK", "SHARED", "MEMORY", "SEEN"].map(String::from).to_vec(),
    ];
    for kernel in kernels {
        let mut instances = kernel.instances(id)?;
        // In the order of recording; instances from the same second by shape.
        instances.sort_by_key(|(_, instance)| (instance.ours.recorded_at, instance.grid_dims, instance.block_dims));
        for (id, instance) in instances {
            rows.push(vec![
                shorten(kernel.record.demangled_name.trim_start_matches("void "), NAME_WIDTH),
                kernel.record.static_hash.to_string(),
                id.into(),
                instance.grid_dims.to_string(),
                instance.block_dims.to_string(),
                instance.shared_mem.to_string(),
                units::bytes(memory_bytes(kernel.folder(), instance)?),
                instance.occurrences.to_string(),
            ]);
        }
    }
    print(&render(&columns, &rows))?;
    kernels.iter().try_for_each(|kernel| Ok(kernel.warn_of_unchanged(id)?))
}

fn describe(kernel: &KernelFile, id: Option<&str>) -> Result<serde_json::Value, CommandError> {
    let instances = kernel.instances(id)?.into_iter().map(|(id, instance)| {
        json!({
            "id": id,
            "grid": instance.grid_dims,
            "block": instance.block_dims,
            "shared_mem": instance.shared_mem,
            "memory_bytes": memory_bytes(kernel.folder(), instance).ok(),
            "occurrences": instance.occurrences,
            "changes_memory": kernel.changes_memory(instance),
            "evidence": evidence(kernel, id, instance),
        })
    });
    Ok(json!({
        "file": kernel.path,
        "kernel": kernel.record.demangled_name,
        "mangled": kernel.record.kernel_name,
        "static_hash": kernel.record.static_hash.to_string(),
        "instances": instances.collect::<Vec<_>>(),
    }))
}

/// The evidence that replays collected about the instance, by kind of device: the bytes that they fill before each run,
/// the written bytes that the recorded input cannot show, and the fresh inputs.
fn evidence(kernel: &KernelFile, id: &str, instance: &InstanceRecord) -> serde_json::Value {
    let of = |(device, map): (&'static str, PoisonMap)| {
        let unshown: u64 = map.unshown.iter().map(|region| region.bytes).sum();
        let found = json!({
            "poisoned": map.filled(),
            "unshown": unshown,
            "fresh_inputs": map.fresh_inputs.len(),
            "not_searched": map.left_out,
        });
        (device.to_owned(), found)
    };
    kernel.poison_maps(id, instance).into_iter().map(of).collect::<serde_json::Map<_, _>>().into()
}
