//! What a kernel's parameters are in PTX and in machine code, and whether they are those that were recorded.

use goblin::elf::Elf;
use mneme_core::recording::database::ArgumentLayout;

use crate::error::BuildError;

/// Refuses other parameters than the recorded ones, by number and size, bytes: a launch gets them one by one, wherever the code has them.
/// (A parameter of an alignment beyond 16 bytes lies elsewhere on another architecture: it counts from where the architecture begins
/// its parameters in constant memory.)
pub fn check(kernel: &str, recorded: &[ArgumentLayout], found: &[ArgumentLayout]) -> Result<(), BuildError> {
    let refused = |difference: String| Err(BuildError::Signature { kernel: kernel.to_owned(), difference });
    if recorded.len() != found.len() {
        return refused(format!("it has {} parameters, recorded were {}", found.len(), recorded.len()));
    }
    for (index, (recorded, found)) in recorded.iter().zip(found).enumerate() {
        if recorded.size != found.size {
            return refused(format!("parameter {index} has {} bytes, recorded were {}", found.size, recorded.size));
        }
    }
    Ok(())
}

/// The parameters of the entry `kernel` in PTX text, or the names of the entries that there are.
pub fn of_ptx(ptx: &str, kernel: &str) -> Result<Vec<ArgumentLayout>, Vec<String>> {
    let text: String = ptx.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let mut entries = Vec::new();
    for after in text.split(".entry").skip(1) {
        let after = after.trim_start();
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c))).unwrap_or(after.len());
        let (name, rest) = after.split_at(end);
        if name != kernel {
            entries.push(name.to_owned());
            continue;
        }
        let list = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split(')').next()).unwrap_or("");
        let mut offset = 0u32;
        let parameters = list.split(',').filter(|declaration| declaration.contains(".param")).map(|declaration| {
            let (size, alignment) = ptx_parameter(declaration);
            let at = offset.next_multiple_of(alignment.max(1));
            offset = at.saturating_add(size);
            ArgumentLayout { offset: at, size, kind: String::new() }
        });
        return Ok(parameters.collect());
    }
    Err(entries)
}

/// Size and alignment, bytes, of `.param .u64 .ptr .align 16 x` or `.param .align 8 .b8 x[24]`.
fn ptx_parameter(declaration: &str) -> (u32, u32) {
    let mut words = declaration.split_whitespace().peekable();
    let (mut element, mut alignment, mut pointee) = (0, 0, false);
    while let Some(word) = words.next() {
        match word {
            ".ptr" => pointee = true,
            // After `.ptr` it is the alignment of what is pointed at.
            ".align" => alignment = words.next().and_then(|number| number.parse().ok()).filter(|_| !pointee).unwrap_or(alignment),
            _ => {
                let digits = word.strip_prefix('.').map(|ty| ty.trim_start_matches(|c: char| c.is_ascii_alphabetic()));
                element = digits.and_then(|bits| bits.parse::<u32>().ok()).map_or(element, |bits| bits / 8);
            }
        }
    }
    let count = declaration.split_once('[').and_then(|(_, rest)| rest.split(']').next()?.trim().parse().ok()).unwrap_or(1u32);
    (element.saturating_mul(count), if alignment == 0 { element } else { alignment })
}

/// `EIFMT_SVAL` and `EIATTR_KPARAM_INFO` of a cubin's `.nv.info` sections, as `cuobjdump -elf` prints them.
const SIZED: u8 = 4;
const PARAMETER: u8 = 0x17;

/// The parameters of `kernel` in a cubin, `None` where it does not tell; or the names of the kernels that there are.
pub fn of_cubin(cubin: &[u8], kernel: &str) -> Result<Option<Vec<ArgumentLayout>>, Vec<String>> {
    let Ok(elf) = Elf::parse(cubin) else { return Err(Vec::new()) };
    let mut kernels = Vec::new();
    let mut information = None;
    for section in &elf.section_headers {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap_or("");
        if let Some(name) = name.strip_prefix(".text.") {
            kernels.push(name.to_owned());
        }
        if name.strip_prefix(".nv.info.") == Some(kernel) {
            information = section.file_range().and_then(|range| cubin.get(range));
        }
    }
    if !kernels.iter().any(|name| name == kernel) {
        return Err(kernels);
    }
    let mut found: Vec<(u16, ArgumentLayout)> = Vec::new();
    let mut rest = information.unwrap_or_default();
    while let [format, attribute, low, high, after @ ..] = rest {
        let size = if *format == SIZED { usize::from(u16::from_le_bytes([*low, *high])) } else { 0 };
        let Some((data, after)) = after.split_at_checked(size) else { break };
        if (*format, *attribute) == (SIZED, PARAMETER)
            && let [_, _, _, _, ordinal0, ordinal1, offset0, offset1, f0, f1, f2, f3] = data
        {
            let offset = u32::from(u16::from_le_bytes([*offset0, *offset1]));
            let size = u32::from_le_bytes([*f0, *f1, *f2, *f3]) >> 18;
            found.push((u16::from_le_bytes([*ordinal0, *ordinal1]), ArgumentLayout { offset, size, kind: String::new() }));
        }
        rest = after;
    }
    found.sort_by_key(|(ordinal, _)| *ordinal);
    Ok((!found.is_empty()).then(|| found.into_iter().map(|(_, layout)| layout).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::{Assembler, Options};
    use crate::request::ImageKind;
    use proptest::prelude::*;

    const PTX: &str = "
.version 7.8
.target sm_90
.address_size 64
.visible .entry other() { ret; }
.visible .entry kernel( // a comment, with a comma
    .param .u64 .ptr .global .align 16 kernel_param_0,
    .param .u32 kernel_param_1,
    .param .align 8 .b8 kernel_param_2[24],
    .param .f64 kernel_param_3
) .maxntid 64 { ret; }
";

    fn layouts() -> Vec<(u32, u32)> {
        vec![(0, 8), (8, 4), (16, 24), (40, 8)]
    }

    fn pairs(found: Vec<ArgumentLayout>) -> Vec<(u32, u32)> {
        found.into_iter().map(|layout| (layout.offset, layout.size)).collect()
    }

    #[test]
    fn parameters_of_ptx_and_of_what_is_made_of_it() {
        assert_eq!(pairs(of_ptx(PTX, "kernel").unwrap()), layouts());
        assert_eq!(pairs(of_ptx(PTX, "other").unwrap()), []);
        assert_eq!(of_ptx(PTX, "stranger").unwrap_err(), ["other", "kernel"]);
        let assembled = Assembler::find().assemble(PTX, "kernel", "sm_90", Options::default()).unwrap();
        if assembled.kind == ImageKind::Cubin {
            assert_eq!(pairs(of_cubin(&assembled.image, "kernel").unwrap().unwrap()), layouts());
            assert!(of_cubin(&assembled.image, "stranger").unwrap_err().contains(&"kernel".to_owned()));
        }
    }

    #[test]
    fn differences_are_named() {
        let found = of_ptx(PTX, "kernel").unwrap();
        assert!(check("kernel", &found, &found).is_ok());
        let error = check("kernel", &found, &found[..3]).unwrap_err().to_string();
        assert!(error.contains("3 parameters, recorded were 4"), "{error}");
        let mut moved = found.clone();
        moved[1].size = 8;
        let error = check("kernel", &found, &moved).unwrap_err().to_string();
        assert!(error.contains("parameter 1 has 8 bytes, recorded were 4"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_and_no_bytes_make_it_panic(text in ".{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = of_ptx(&format!(".entry k({text}"), "k");
            let _ = of_cubin(&bytes, "k");
        }
    }
}
