//! Writes the header `launch.h` of an exported launch: dimensions, arguments and memory layout.

use std::fmt::{self, Write};

use mneme_model::launch::Dim3;
use mneme_recording::database::{InstanceRecord, KernelRecord};
use mneme_recording::manifest::MemoryState;

use super::kept::{KeptMemory, MemoryPiece, regions};

/// The text of the header.
pub fn of(
    kernel: &KernelRecord,
    (id, instance): (&str, &InstanceRecord),
    prologue: &MemoryState,
    memory: &KeptMemory,
    code: &str,
) -> String {
    let mut text = String::new();
    write(&mut text, kernel, (id, instance), prologue, memory, code).expect("a string can always grow");
    text
}

fn write(
    text: &mut String,
    kernel: &KernelRecord,
    (id, instance): (&str, &InstanceRecord),
    prologue: &MemoryState,
    memory: &KeptMemory,
    code: &str,
) -> fmt::Result {
    let (attributes, arguments) = (&instance.ours.attributes, prologue.parameter_buffer());
    let limits = [attributes.limits.stack, attributes.limits.printf_fifo, attributes.limits.malloc_heap];
    let [stack, printf, heap] = limits.map(|limit| limit.unwrap_or(0));
    let recorded = if kernel.ours.device.is_empty() { "an unknown device" } else { &kernel.ours.device };
    writeln!(text, "/* Launch {id} of a kernel, recorded on {}. */", comment(recorded))?;
    writeln!(text, "#define NAME {}", quoted(&kernel.demangled_name.replace('%', "%%")))?;
    writeln!(text, "#define KERNEL {}", quoted(&kernel.kernel_name))?;
    writeln!(text, "#define CODE {}", quoted(code))?;
    writeln!(text, "#define GRID {}", dimensions(instance.grid_dims))?;
    writeln!(text, "#define BLOCK {}", dimensions(instance.block_dims))?;
    writeln!(text, "/* Thread block cluster; zeros if unused. */")?;
    writeln!(text, "#define CLUSTER_SHAPE {}", attributes.cluster.map_or("0, 0, 0".into(), dimensions))?;
    writeln!(text, "#define IS_COOPERATIVE {}", u32::from(attributes.cooperative))?;
    writeln!(text, "/* Dynamic shared memory, and the function's limit if the application has set one. */")?;
    writeln!(text, "#define SHARED_BYTES {}", instance.shared_mem)?;
    writeln!(text, "#define MAX_SHARED_BYTES {}", attributes.max_dynamic_shared.unwrap_or(0))?;
    writeln!(text, "/* Bytes of stack, printf buffer and heap; 0 for the defaults. */")?;
    writeln!(text, "#define LIMITS {stack}, {printf}, {heap}")?;
    writeln!(text, "#define ARGUMENT_BYTES {}\n", arguments.len())?;
    write!(text, "static const unsigned char ARGUMENTS[] = {{")?;
    for (index, byte) in arguments.iter().chain(arguments.is_empty().then_some(&0)).enumerate() {
        write!(text, "{}0x{byte:02x},", if index % 16 == 0 { "\n    " } else { " " })?;
    }
    writeln!(text, "\n}};\n")?;
    let regions = regions(prologue);
    writeln!(text, "enum {{ REGION_COUNT = {} }};", regions.len())?;
    writeln!(text, "static const struct region REGIONS[REGION_COUNT + 1] = {{")?;
    for region in &regions {
        let (name, kind) = match region.variable {
            None => ("NULL".into(), "ALLOCATION"),
            Some(variable) if variable.code => (quoted(&variable.name), "TABLE"),
            Some(variable) if variable.constant => (quoted(&variable.name), "CONSTANT"),
            Some(variable) => (quoted(&variable.name), "VARIABLE"),
        };
        writeln!(text, "    {{0x{:x}, {}, {name}, {kind}}},", region.address, region.size)?;
    }
    writeln!(text, "    {{0}},\n}};\n")?;
    writeln!(text, "/* Size of memory.bin. */\n#define MEMORY_BYTES {}u\n", memory.bytes)?;
    pieces(text, "BEFORE", &memory.before)?;
    pieces(text, "AFTER", &memory.after)
}

fn pieces(text: &mut String, name: &str, pieces: &[MemoryPiece]) -> fmt::Result {
    writeln!(text, "enum {{ {name}_COUNT = {} }};", pieces.len())?;
    writeln!(text, "static const struct piece {name}[{name}_COUNT + 1] = {{")?;
    for piece in pieces {
        writeln!(text, "    {{{}, {}, {}, {}}},", piece.region, piece.offset, piece.bytes, piece.file)?;
    }
    writeln!(text, "    {{0}},\n}};\n")
}

fn dimensions(dims: Dim3) -> String {
    format!("{}, {}, {}", dims.x, dims.y, dims.z)
}

/// A C string; unusual characters are written as octal escapes.
fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => text.extend(['\\', byte as char]),
            b' '..=b'~' => text.push(byte as char),
            _ => write!(text, "\\{byte:03o}").expect("a string can always grow"),
        }
    }
    text + "\""
}

/// Removes characters that could end a comment.
fn comment(text: &str) -> String {
    text.chars().map(|character| if matches!(character, '*' | '\n' | '\\') { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_strings_of_c() {
        assert_eq!(quoted("a\"b\\c\u{e9}??/\n"), r#""a\"b\\c\303\251\?\?/\012""#);
        assert_eq!(comment("a */ b\n#error"), "a  / b #error");
    }
}
