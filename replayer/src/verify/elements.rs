//! Determines the element types of memory regions from the kernel's signature.
//!
//! A mangled name contains the C++ types of the parameters. An allocation to which a parameter of type `float *` (or
//! `float4 const *`) points contains floats. Memory of unknown type is bytes: integers read as floats are denormal, and
//! any absolute tolerance would accept them.
//!
//! Allocators return parts of one large allocation. If parameters of several types point into it, each determines the
//! type of the stretch from its target to the next one's.

use std::collections::BTreeMap;

use mneme_model::tolerance::DataType;
use mneme_recording::database::ArgumentLayout;

use crate::recording::instance::RecordedInstance;
use crate::recording::snapshot::SnapshotRegion;

/// The contents of a stretch of memory according to the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    Unknown,
    Of(DataType),
    /// Pointers of several types lead here, so it is compared exactly.
    Contested,
}

impl Elements {
    pub fn dtype(self) -> Option<DataType> {
        match self {
            Self::Of(dtype) => Some(dtype),
            Self::Unknown | Self::Contested => None,
        }
    }
}

/// The contents of each region: stretches with their offsets, ascending from 0.
pub fn of_regions(recorded: &RecordedInstance, regions: &[SnapshotRegion]) -> Vec<Vec<(u64, Elements)>> {
    let types = pointees(&recorded.kernel.demangled_name);
    let pointers =
        pointers(&recorded.kernel.ours.arguments, &recorded.moments.prologue.parameter_buffer(), types.len());
    let claims: Vec<(u64, Pointee)> =
        pointers.into_iter().zip(types).filter_map(|(pointer, pointee)| Some((pointer?, pointee?))).collect();
    let of = |region: &SnapshotRegion| {
        if let Some(array) = region.array {
            return vec![(0, array.texel.element().map_or(Elements::Unknown, Elements::Of))];
        }
        let within = |(pointer, pointee): &(u64, Pointee)| {
            let offset = pointer.checked_sub(region.address).filter(|offset| *offset < region.size)?;
            Some((offset, pointee.at(*pointer)))
        };
        stretches(claims.iter().filter_map(within))
    };
    regions.iter().map(of).collect()
}

/// The stretches of a region that pointers lead to, by offset.
fn stretches(claims: impl Iterator<Item = (u64, Pointee)>) -> Vec<(u64, Elements)> {
    let mut by_offset: BTreeMap<u64, Elements> = BTreeMap::new();
    for (offset, pointee) in claims {
        let claimed = by_offset.entry(offset).or_insert(Elements::Unknown);
        *claimed = match (*claimed, pointee) {
            (claimed, Pointee::Opaque) => claimed,
            (Elements::Unknown, Pointee::Elements(dtype)) => Elements::Of(dtype),
            (Elements::Of(known), Pointee::Elements(dtype)) if known == dtype => Elements::Of(dtype),
            _ => Elements::Contested,
        };
    }
    let mut found: Vec<(u64, Elements)> = by_offset.into_iter().collect();
    found.dedup_by_key(|(_, elements)| *elements);
    match found.as_mut_slice() {
        // With one type, a pointer into the middle determines the type of the whole region.
        [(offset, _)] => *offset = 0,
        [(0, _), ..] => {}
        _ => found.insert(0, (0, Elements::Unknown)),
    }
    found
}

/// The value of each argument of the recorded launch that has a pointer's size.
pub fn argument_pointers(recorded: &RecordedInstance) -> Vec<Option<u64>> {
    let layout = &recorded.kernel.ours.arguments;
    pointers(layout, &recorded.moments.prologue.parameter_buffer(), layout.len())
}

/// The value of each parameter that has a pointer's size. Returns one entry for each parameter, or an empty list if the
/// recorded layout has another number of `parameters`.
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

/// The target of a pointer parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pointee {
    Elements(DataType),
    /// An unknown type.
    Opaque,
}

impl Pointee {
    /// The target of a pointer with this value, which must be aligned for the elements.
    fn at(self, pointer: u64) -> Self {
        match self {
            Self::Elements(dtype) if !pointer.is_multiple_of(dtype.size() as u64) => Self::Opaque,
            pointee => pointee,
        }
    }
}

/// For each parameter of a demangled function: its target, if it is a pointer.
fn pointees(demangled: &str) -> Vec<Option<Pointee>> {
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

fn pointee(parameter: &str) -> Option<Pointee> {
    elements(parameter).map(Pointee::Elements).or_else(|| parameter.ends_with('*').then_some(Pointee::Opaque))
}

fn elements(parameter: &str) -> Option<DataType> {
    // Qualifiers are separate words or adjacent to the asterisk; they do not change the target.
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
        let known = |dtype| Some(Pointee::Elements(dtype));
        let opaque = Some(Pointee::Opaque);
        assert_eq!(pointees(name), [known(DataType::F32), known(DataType::F64), opaque, None, opaque]);
        assert_eq!(parameters("k()"), [""; 0]);
        assert_eq!(parameters("k"), [""; 0]);
        assert_eq!(parameters("broken)>"), [""; 0]);
    }

    #[test]
    fn qualifiers_do_not_matter() {
        for text in
            ["float*", "float const*", "float const* __restrict__", "const float *", "float4 const*", "float volatile*"]
        {
            assert_eq!(elements(text), Some(DataType::F32), "{text}");
        }
        for text in ["float", "float**", "floaty*", "Pair<int, float>*", "void*"] {
            assert_eq!(elements(text), None, "{text}");
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
            assert_eq!(elements(text), Some(dtype), "{text}");
        }
    }

    #[test]
    fn an_allocation_is_typed_by_the_stretches_between_pointers() {
        use DataType::{F32, I32};
        use Elements::{Contested, Of, Unknown};
        use Pointee::Opaque;
        let of = |claims: &[(u64, Pointee)]| stretches(claims.iter().copied());
        let (float, int) = (Pointee::Elements(F32), Pointee::Elements(I32));
        assert_eq!(of(&[]), [(0, Unknown)]);
        assert_eq!(of(&[(64, float)]), [(0, Of(F32))]);
        assert_eq!(of(&[(64, float), (0, float)]), [(0, Of(F32))]);
        assert_eq!(of(&[(64, int), (0, float), (32, float)]), [(0, Of(F32)), (64, Of(I32))]);
        assert_eq!(of(&[(64, int), (16, float)]), [(0, Unknown), (16, Of(F32)), (64, Of(I32))]);
        assert_eq!(of(&[(0, int), (0, float), (64, float)]), [(0, Contested), (64, Of(F32))]);
        assert_eq!(of(&[(0, Opaque), (0, float), (64, Opaque)]), [(0, Of(F32)), (64, Unknown)]);
        assert_eq!(float.at(6), Opaque, "no float lies there");
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
