//! The element types of memory regions, read off the kernel's signature.
//!
//! A mangled name tells the C++ types of the parameters. An allocation that a parameter of type `float *` (or `float4
//! const *`) points into holds floats. Where nothing is known, memory is bytes: integers read as floats are denormal,
//! and any absolute tolerance would let them pass.

use mneme_core::recording::database::ArgumentLayout;
use mneme_core::tolerance::DataType;

use crate::recording::instance::RecordedInstance;
use crate::recording::snapshot::SnapshotRegion;

/// The elements of each region, where the signature tells.
pub fn of_regions(recorded: &RecordedInstance, regions: &[SnapshotRegion]) -> Vec<Option<DataType>> {
    let types = pointees(&recorded.kernel.demangled_name);
    let pointers =
        pointers(&recorded.kernel.ours.arguments, &recorded.moments.prologue.parameter_buffer(), types.len());
    let typed: Vec<_> =
        pointers.into_iter().zip(types).filter_map(|(pointer, elements)| Some((pointer?, elements?))).collect();
    let within = |region: &SnapshotRegion, pointer: u64| {
        pointer.checked_sub(region.address).is_some_and(|offset| offset < region.size)
    };
    regions
        .iter()
        .map(|region| typed.iter().find(|(pointer, _)| within(region, *pointer)).map(|(_, elements)| *elements))
        .collect()
}

/// The value of each argument of the recorded launch, where it has a pointer's size.
pub fn argument_pointers(recorded: &RecordedInstance) -> Vec<Option<u64>> {
    let layout = &recorded.kernel.ours.arguments;
    pointers(layout, &recorded.moments.prologue.parameter_buffer(), layout.len())
}

/// The pointer that each parameter holds, if it has a pointer's size; as many as there are `parameters`, or none where
/// the recorded layout has another number.
fn pointers(layout: &[ArgumentLayout], buffer: &[u8], parameters: usize) -> Vec<Option<u64>> {
    if layout.len() != parameters {
        return Vec::new();
    }
    let value = |argument: &ArgumentLayout| {
        let bytes = buffer.get(argument.offset as usize..)?.first_chunk::<8>()?;
        (argument.size == 8).then(|| u64::from_le_bytes(*bytes))
    };
    layout.iter().map(value).collect()
}

/// For each parameter of a demangled function: what it points at, where that is a type known here.
fn pointees(demangled: &str) -> Vec<Option<DataType>> {
    parameters(demangled).into_iter().map(pointee).collect()
}

fn parameters(demangled: &str) -> Vec<&str> {
    let Some(end) = demangled.rfind(')') else { return Vec::new() };
    let mut depth = 0;
    let mut commas = Vec::new();
    for (at, byte) in demangled.as_bytes()[..=end].iter().enumerate().rev() {
        match byte {
            b')' | b'>' | b']' => depth += 1,
            b'(' | b'<' | b'[' => depth -= 1,
            b',' if depth == 1 => commas.push(at),
            _ => {}
        }
        if depth == 0 {
            let mut from = at + 1;
            let mut parameters = Vec::new();
            for to in commas.into_iter().rev().chain([end]) {
                parameters.push(demangled[from..to].trim());
                from = to + 1;
            }
            return if parameters == [""] { Vec::new() } else { parameters };
        }
    }
    Vec::new()
}

const QUALIFIERS: [&str; 4] = ["const", "volatile", "__restrict__", "restrict"];

fn pointee(parameter: &str) -> Option<DataType> {
    // Qualifiers stand as words or lean on the asterisk; they do not change what is pointed at.
    let spaced = parameter.replace('*', " * ");
    let words: Vec<&str> = spaced.split_whitespace().filter(|word| !QUALIFIERS.contains(word)).collect();
    let (asterisk, base) = words.split_last()?;
    if *asterisk != "*" {
        return None;
    }
    // The vector types of CUDA and HIP are one word with the number of elements.
    let base = match base {
        [word] => word.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned(),
        words => words.join(" "),
    };
    Some(match base.as_str() {
        "float" => DataType::F32,
        "double" => DataType::F64,
        "__half" | "half" | "_Float" => DataType::F16,
        "char" | "signed char" => DataType::I8,
        "unsigned char" | "uchar" | "bool" => DataType::U8,
        "short" => DataType::I16,
        "unsigned short" | "ushort" => DataType::U16,
        "int" => DataType::I32,
        "unsigned" | "unsigned int" | "uint" => DataType::U32,
        "long" | "long long" | "longlong" => DataType::I64,
        "unsigned long" | "unsigned long long" | "ulong" | "ulonglong" => DataType::U64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_off_demangled_names() {
        let name = "void apply<Functor<float, 3>, long>(float const*, double4*, Pair<int, float>*, int, float**)";
        assert_eq!(parameters(name), ["float const*", "double4*", "Pair<int, float>*", "int", "float**"]);
        assert_eq!(pointees(name), [Some(DataType::F32), Some(DataType::F64), None, None, None]);
        assert_eq!(parameters("k()"), [""; 0]);
        assert_eq!(parameters("k"), [""; 0]);
        assert_eq!(parameters("broken)>"), [""; 0]);
    }

    #[test]
    fn qualifiers_do_not_matter() {
        for text in
            ["float*", "float const*", "float const* __restrict__", "const float *", "float4 const*", "float volatile*"]
        {
            assert_eq!(pointee(text), Some(DataType::F32), "{text}");
        }
        for text in ["float", "float**", "floaty*", "Pair<int, float>*", "void*"] {
            assert_eq!(pointee(text), None, "{text}");
        }
    }

    #[test]
    fn integers_have_types_too() {
        for (text, dtype) in [
            ("int*", DataType::I32),
            ("uint4 const*", DataType::U32),
            ("unsigned long const* __restrict__", DataType::U64),
            ("unsigned long long*", DataType::U64),
            ("signed char*", DataType::I8),
            ("unsigned char*", DataType::U8),
            ("long*", DataType::I64),
            ("__half*", DataType::F16),
        ] {
            assert_eq!(pointee(text), Some(dtype), "{text}");
        }
    }

    #[test]
    fn pointers_are_found_by_offset() {
        let layout = |offset, size| ArgumentLayout { offset, size, kind: String::new() };
        let mut buffer = vec![0; 16];
        buffer[8..].copy_from_slice(&0x1000_u64.to_le_bytes());
        assert_eq!(pointers(&[layout(0, 4), layout(8, 8)], &buffer, 2), [None, Some(0x1000)]);
        assert_eq!(pointers(&[layout(0, 4)], &buffer, 2), []);
        assert_eq!(pointers(&[layout(12, 8)], &buffer, 1), [None]);
    }
}
