//! The command `mneme show`, which prints everything about a recorded kernel.

use std::fmt::Write;
use std::path::Path;

use clap::Args;
use mneme_model::hash::ChunkId;
use mneme_model::images::{ImageResource, Images, Texel};
use mneme_model::launch::Dim3;
use mneme_model::tolerance::DataType;
use mneme_model::units;
use mneme_recording::database::{ArgumentLayout, InstanceRecord};
use mneme_recording::manifest::{AnnotatedPart, MemoryState, RecordedRegion};
use mneme_recording::store::Store;
use mneme_recording::{CodeKind, Moments, RecordingError};
use serde::Serialize;

use crate::error::CommandError;
use crate::output::print;
use crate::selection::{KernelFile, Selection};
use crate::table::{Align, render};

#[derive(Debug, Args)]
pub struct ShowOptions {
    #[command(flatten)]
    selection: Selection,
    /// Print JSON, with hashes as strings
    #[arg(long)]
    json: bool,
}

/// A kernel in detail.
#[derive(Debug, Serialize)]
struct KernelDetails {
    file: String,
    kernel: String,
    mangled: String,
    static_hash: String,
    /// Recording device and its architecture.
    device: String,
    device_arch: String,
    /// Architecture of the IR.
    ir_arch: String,
    triple: String,
    /// Files with IR or code.
    code: Vec<FileDetails>,
    instances: Vec<InstanceDetails>,
}

impl KernelDetails {
    /// Kind and architecture of the code, such as `PTX for sm_90`.
    fn code_kind(&self) -> String {
        let arch = if self.ir_arch.is_empty() { &self.device_arch } else { &self.ir_arch };
        let kind = self.code.first().map_or(CodeKind::Bitcode, |file| CodeKind::of(&file.name));
        match kind {
            CodeKind::Bitcode => format!("LLVM IR for {arch} ({})", self.triple),
            CodeKind::Llir => format!("Triton's LLVM IR for {arch}"),
            CodeKind::Ptx => format!("PTX for {arch}"),
            CodeKind::Cubin | CodeKind::CodeObject | CodeKind::CpuObject => format!("machine code for {arch}"),
        }
    }
}

#[derive(Debug, Serialize)]
struct FileDetails {
    name: String,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct InstanceDetails {
    id: String,
    grid: Dim3,
    block: Dim3,
    shared_mem: u32,
    occurrences: u64,
    /// Seconds since 1970, UTC.
    recorded_at: u64,
    arguments: Vec<ArgumentDetails>,
    regions: Vec<RegionDetails>,
    /// Arrays, and texture and surface objects.
    #[serde(skip_serializing_if = "Images::is_empty")]
    images: Images,
    memory_bytes: u64,
    /// Bytes that differ between prologue and epilogue.
    changed_bytes: u64,
    files: Vec<FileDetails>,
}

#[derive(Debug, Serialize)]
struct ArgumentDetails {
    name: String,
    kind: String,
    offset: u32,
    size: u32,
    value: String,
    /// Whether it can be folded into the code.
    specialisable: bool,
}

#[derive(Debug, Serialize)]
struct RegionDetails {
    /// The device variable's name, the allocation's tag, or "".
    name: String,
    kind: String,
    address: String,
    bytes: u64,
    /// Bytes that differ between prologue and epilogue; `None` if only one of them has the region.
    changed_bytes: Option<u64>,
    /// Ranges that the application annotated by themselves.
    #[serde(skip_serializing_if = "<[AnnotatedPart]>::is_empty")]
    parts: Vec<AnnotatedPart>,
}

pub fn run(options: &ShowOptions) -> Result<(), CommandError> {
    let mut described = Vec::new();
    let selected = options.selection.some_kernels()?;
    for kernel in &selected.kernels {
        described.push(describe(kernel, options.selection.record_id.as_deref())?);
    }
    let mut text = String::new();
    if options.json {
        text = format!("{:#}\n", serde_json::to_value(&described).expect("plain data serialises"));
    } else {
        for kernel in &described {
            describe_as_text(kernel, &mut text).expect("a string can always grow");
        }
    }
    print(&text)?;
    selected.complete()
}

fn describe(kernel: &KernelFile, id: Option<&str>) -> Result<KernelDetails, RecordingError> {
    let (folder, record) = (kernel.folder(), &kernel.record);
    let instances = kernel.instances(id)?.into_iter().map(|(id, instance)| describe_instance(kernel, id, instance));
    Ok(KernelDetails {
        file: kernel.path.display().to_string(),
        kernel: record.demangled_name.clone(),
        mangled: record.kernel_name.clone(),
        static_hash: record.static_hash.to_string(),
        device: record.ours.device.clone(),
        device_arch: record.ours.device_arch.clone(),
        ir_arch: record.ours.ir_arch.clone(),
        triple: record.ours.triple.clone(),
        code: record
            .modules
            .iter()
            .chain(&record.binary_blobs)
            .map(|name| file(folder, name))
            .collect::<Result<_, _>>()?,
        instances: instances.collect::<Result<_, _>>()?,
    })
}

fn describe_instance(
    kernel: &KernelFile,
    id: &str,
    instance: &InstanceRecord,
) -> Result<InstanceDetails, RecordingError> {
    let folder = kernel.folder();
    let moments = Moments::open(folder, &kernel.record, instance)?;
    let Moments { prologue, epilogue, .. } = &moments;
    let regions = compare(&moments.store(folder)?, prologue, epilogue)?;
    Ok(InstanceDetails {
        id: id.into(),
        grid: instance.grid_dims,
        block: instance.block_dims,
        shared_mem: instance.shared_mem,
        occurrences: instance.occurrences,
        recorded_at: instance.ours.recorded_at,
        arguments: arguments(kernel, prologue),
        memory_bytes: prologue.memory_bytes(),
        changed_bytes: regions.iter().filter_map(|region| region.changed_bytes).sum(),
        regions,
        images: prologue.header.images.clone(),
        files: instance.files().map(|name| file(folder, name)).collect::<Result<_, _>>()?,
    })
}

fn file(folder: &Path, name: &str) -> Result<FileDetails, RecordingError> {
    let path = folder.join(name);
    let metadata = std::fs::metadata(&path).map_err(|source| RecordingError::Io { path, source })?;
    Ok(FileDetails { name: name.into(), bytes: metadata.len() })
}

fn arguments(kernel: &KernelFile, prologue: &MemoryState) -> Vec<ArgumentDetails> {
    let record = &kernel.record;
    let details = |(index, argument): (usize, &mneme_recording::manifest::RecordedArgument)| {
        let size = argument.bytes.len() as u32;
        let unknown = ArgumentLayout { offset: argument.offset, size, kind: String::new() };
        let layout = record.ours.arguments.iter().find(|layout| layout.offset == argument.offset).unwrap_or(&unknown);
        ArgumentDetails {
            name: record.arg_names.get(index).cloned().unwrap_or_default(),
            kind: layout.kind.clone(),
            offset: argument.offset,
            size,
            value: value(&layout.kind, &argument.bytes),
            specialisable: record.specializations.get(index).copied().unwrap_or(false),
        }
    };
    prologue.header.arguments.iter().enumerate().map(details).collect()
}

/// An argument's value by its IR type; otherwise its bytes in hexadecimal.
fn value(kind: &str, bytes: &[u8]) -> String {
    match (kind, bytes) {
        ("float", &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).to_string(),
        ("double", bytes) if bytes.len() == 8 => f64::from_le_bytes(bytes.try_into().expect("eight bytes")).to_string(),
        ("ptr", bytes) if bytes.len() == 8 => {
            format!("{:#x}", u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        }
        ("i1", [byte]) => (*byte != 0).to_string(),
        (kind, bytes) if kind.starts_with('i') && matches!(bytes.len(), 1 | 2 | 4 | 8) => {
            let mut wide = [if bytes[bytes.len() - 1] & 0x80 == 0 { 0 } else { 0xff }; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(wide).to_string()
        }
        (_, bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
    }
}

/// The prologue's regions, with the number of bytes that the kernel changed in each.
fn compare(
    store: &Store,
    prologue: &MemoryState,
    epilogue: &MemoryState,
) -> Result<Vec<RegionDetails>, RecordingError> {
    let kinds = prologue
        .header
        .variables
        .iter()
        .map(|variable| if variable.constant { "constant" } else { "variable" }.to_owned());
    let kinds = kinds
        .chain(prologue.header.allocations.iter().map(|allocation| format!("{:?}", allocation.kind).to_lowercase()));
    let mut details = Vec::new();
    for (before, kind) in prologue.regions().zip(kinds) {
        let is_same = |after: &RecordedRegion<'_>| {
            (after.address, after.size, after.variable.is_some())
                == (before.address, before.size, before.variable.is_some())
        };
        let after = epilogue.regions().find(is_same);
        details.push(RegionDetails {
            name: before.tag.into(),
            kind,
            address: format!("{:#x}", before.address),
            bytes: before.size,
            changed_bytes: after.map(|after| changed_bytes(store, &before, &after)).transpose()?,
            parts: before.parts.to_vec(),
        });
    }
    Ok(details)
}

fn changed_bytes(
    store: &Store,
    before: &RecordedRegion<'_>,
    after: &RecordedRegion<'_>,
) -> Result<u64, RecordingError> {
    let mut changed = 0;
    for (index, (old, new)) in before.chunks.iter().zip(after.chunks).enumerate() {
        if old != new {
            let length = before.extent(index).1 as usize;
            let (old, new) = (read(store, old, length)?, read(store, new, length)?);
            changed += old.iter().zip(&new).filter(|(old, new)| old != new).count() as u64;
        }
    }
    Ok(changed)
}

fn read(store: &Store, id: &ChunkId, length: usize) -> Result<Vec<u8>, RecordingError> {
    let mut bytes = vec![0; length];
    store.read_chunk(id, &mut bytes)?;
    Ok(bytes)
}

fn describe_as_text(kernel: &KernelDetails, text: &mut String) -> std::fmt::Result {
    use Align::{Left, Right};
    writeln!(text, "{}", kernel.kernel)?;
    let facts = [
        ("file", kernel.file.clone()),
        ("mangled name", kernel.mangled.clone()),
        ("static hash", kernel.static_hash.clone()),
        ("recorded on", format!("{} ({})", kernel.device, kernel.device_arch)),
        ("code", kernel.code_kind()),
    ];
    for (name, fact) in facts {
        writeln!(text, "  {name:<13} {fact}")?;
    }
    for file in &kernel.code {
        writeln!(text, "  {:<13} {} ({})", "code file", file.name, units::bytes(file.bytes))?;
    }
    for instance in &kernel.instances {
        writeln!(text, "\n  instance {}", instance.id)?;
        writeln!(
            text,
            "    launch        grid {}, block {}, {} bytes of dynamic shared memory",
            instance.grid, instance.block, instance.shared_mem
        )?;
        writeln!(text, "    seen          {}", instance.occurrences)?;
        writeln!(
            text,
            "    memory        {}, of which the kernel changed {} bytes",
            units::bytes(instance.memory_bytes),
            instance.changed_bytes
        )?;
        for file in &instance.files {
            writeln!(text, "    manifest      {} ({})", file.name, units::bytes(file.bytes))?;
        }
        let mut rows = vec![["ARGUMENT", "TYPE", "OFFSET", "SIZE", "VALUE"].map(String::from).to_vec()];
        rows.extend(instance.arguments.iter().enumerate().map(|(index, argument)| {
            let name = if argument.name.is_empty() { index.to_string() } else { format!("{index} {}", argument.name) };
            vec![
                name,
                argument.kind.clone(),
                argument.offset.to_string(),
                argument.size.to_string(),
                argument.value.clone(),
            ]
        }));
        indented(&render(&[Left, Left, Right, Right, Left], &rows), text)?;
        let mut rows = vec![["MEMORY", "ADDRESS", "BYTES", "CHANGED", "NAME"].map(String::from).to_vec()];
        for region in &instance.regions {
            let changed = region.changed_bytes.map_or_else(|| "gone".into(), |bytes| bytes.to_string());
            rows.push(vec![
                region.kind.clone(),
                region.address.clone(),
                region.bytes.to_string(),
                changed,
                region.name.clone(),
            ]);
            rows.extend(region.parts.iter().map(|AnnotatedPart { offset, size, annotation }| {
                let name = format!("{} ({})", annotation.tag, annotation.tolerance);
                vec!["  part".into(), format!("+{offset}"), size.to_string(), String::new(), name.trim_start().into()]
            }));
        }
        indented(&render(&[Left, Right, Right, Right, Left], &rows), text)?;
        if !instance.images.is_empty() {
            let mut rows = vec![["OBJECT", "HANDLE", "TEXELS"].map(String::from).to_vec()];
            rows.extend(instance.images.objects.iter().map(|object| {
                let kind = if object.texture.is_some() { "texture" } else { "surface" };
                vec![kind.into(), object.handle.to_string(), texels(&instance.images, &object.resource)]
            }));
            indented(&render(&[Left, Right, Left], &rows), text)?;
        }
    }
    writeln!(text)
}

/// The texels of an object, such as "array1: 40 x 24 of 4 f32".
fn texels(images: &Images, resource: &ImageResource) -> String {
    let of = |texel: Texel| format!("{} {}", texel.channels, texel.element().map_or("unknown", DataType::name));
    match resource {
        ImageResource::Array(number) => images.arrays.get(*number as usize).map_or_else(String::new, |array| {
            let lengths = [array.width, array.height, array.depth].into_iter().filter(|length| *length > 0);
            let lengths: Vec<String> = lengths.map(|length| length.to_string()).collect();
            format!("{}: {} of {}", images.array_name(*number as usize), lengths.join(" x "), of(array.texel))
        }),
        ImageResource::Linear { address, texel, bytes } => format!("{bytes} bytes at {address:#x} of {}", of(*texel)),
        ImageResource::Pitched { address, texel, width, height, pitch } => {
            format!("{width} x {height} at {address:#x} of {}, {pitch} bytes apart", of(*texel))
        }
    }
}

fn indented(table: &str, text: &mut String) -> std::fmt::Result {
    writeln!(text)?;
    for line in table.lines() {
        writeln!(text, "    {line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Moment;
    use mneme_recording::manifest::{Allocation, AllocationKind, CHUNK, Header, RecordedVariable};
    use mneme_recording::store::StoreWriter;

    #[test]
    fn values_are_read_by_type() {
        assert_eq!(value("i32", &(-5i32).to_le_bytes()), "-5");
        assert_eq!(value("i64", &7u64.to_le_bytes()), "7");
        assert_eq!(value("float", &2.5f32.to_le_bytes()), "2.5");
        assert_eq!(value("double", &0.1f64.to_le_bytes()), "0.1");
        assert_eq!(value("ptr", &0x1000_0000_0000u64.to_le_bytes()), "0x100000000000");
        assert_eq!(value("i1", &[1]), "true");
        assert_eq!(value("byval", &[1, 0xab]), "01 ab");
    }

    #[test]
    fn changed_bytes_are_counted_region_by_region() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreWriter::open(folder.path(), 1).unwrap();
        let size = CHUNK + 100;
        let memory = vec![7u8; size as usize];
        let mut written = memory.clone();
        written[5] = 0;
        written[CHUNK as usize + 99] = 1;
        let state = |moment, bytes: &[u8]| MemoryState {
            header: Header {
                moment,
                variables: vec![RecordedVariable {
                    name: "v".into(),
                    address: 0x10,
                    size: 4,
                    constant: false,
                    code: false,
                    functions: Vec::new(),
                }],
                allocations: vec![Allocation {
                    address: 0x1000,
                    size,
                    kind: AllocationKind::Arena,
                    ..Allocation::default()
                }],
                ..Header::default()
            },
            chunks: vec![store.put_region(&[1; 4]).unwrap(), store.put_region(bytes).unwrap()],
        };
        let (prologue, epilogue) = (state(Moment::Prologue, &memory), state(Moment::Epilogue, &written));
        store.sync().unwrap();
        store.finish().unwrap();
        let regions = compare(&Store::open(folder.path()).unwrap(), &prologue, &epilogue).unwrap();
        assert_eq!(regions.iter().map(|region| region.changed_bytes).collect::<Vec<_>>(), [Some(0), Some(2)]);
        assert_eq!((regions[0].name.as_str(), regions[1].kind.as_str()), ("v", "arena"));
    }
}
