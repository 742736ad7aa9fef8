//! LLVM IR that compilers other than `mneme-cc` embed in their output.
//!
//! - Proteus: device variables `_jit_bitcode…` in a cubin; sections `.jit.bitcode…` of an AMDGPU code object.
//! - clang's `-fembed-bitcode=all`: the variable `llvm.embedded.module` in section `.llvmbc`. PTX lacks sections, and
//!   dots in names: in a cubin it is a device variable. In other objects it is the section, in which linkers
//!   concatenate the modules of all units. A host object's own section holds the IR of the host.

use super::bitcode::{is_bitcode, modules, triple};
use super::cubin::{self, Cubin};
use super::elf;

/// Start of the names of the device variables that hold bitcode for Proteus.
const PROTEUS_VARIABLE: &str = "_jit_bitcode";
/// Start of the names of the sections that hold a kernel's bitcode for Proteus in an AMDGPU code object.
const PROTEUS_SECTION: &str = ".jit.bitcode";
/// The variables of clang's `-fembed-bitcode` in a cubin: the bitcode, and the options of its compilation.
const CLANG_MODULE: &str = "llvm_$_embedded_$_module";
const CLANG_OPTIONS: &str = "llvm_$_cmdline";
/// The section of `-fembed-bitcode` in other objects.
const CLANG_SECTION: &str = ".llvmbc";
/// Name prefix of the tables for CUDA's mathematical functions (libdevice).
const MATH_TABLE: &str = "__cudart_";
/// Prefix of triples of NVIDIA architectures.
const NVIDIA: &str = "nvptx";

/// The compiler that embedded the IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IrProducer {
    Proteus,
    Clang,
}

/// Whether a device variable does not belong to the program itself: it never changes, so code may contain its compiled
/// value.
pub fn is_foreign(variable: &str) -> bool {
    [PROTEUS_VARIABLE, MATH_TABLE].iter().any(|start| variable.starts_with(start))
        || variable == CLANG_MODULE
        || variable == CLANG_OPTIONS
}

/// The modules from which a cubin was made: Proteus's if present, otherwise clang's.
pub fn in_cubin<'a>(image: &'a [u8], cubin: &Cubin) -> Option<(IrProducer, Vec<&'a [u8]>)> {
    let named = |is_meant: fn(&str) -> bool| -> Vec<&'a [u8]> {
        let variables = cubin.variables.iter().filter(|variable| is_meant(&variable.name));
        variables.filter_map(|variable| cubin::contents(image, variable)).filter(|bytes| is_bitcode(bytes)).collect()
    };
    let proteus = named(|name| name.starts_with(PROTEUS_VARIABLE));
    let clang = named(|name| name == CLANG_MODULE);
    [(IrProducer::Proteus, proteus), (IrProducer::Clang, clang)].into_iter().find(|(_, modules)| !modules.is_empty())
}

/// The bitcode modules for Proteus in an AMDGPU code object, by the name of their section.
pub fn in_code_object(image: &[u8]) -> Vec<(String, &[u8])> {
    let sections = |name: &str| name.starts_with(PROTEUS_SECTION);
    sections_of(image, sections).into_iter().filter(|(_, bytes)| is_bitcode(bytes)).collect()
}

/// The modules for NVIDIA architectures in the section `.llvmbc` of an ELF object.
pub fn in_object(image: &[u8]) -> Vec<&[u8]> {
    let sections = sections_of(image, |name| name == CLANG_SECTION);
    let found = sections.into_iter().flat_map(|(_, bytes)| modules(bytes));
    found.filter(|module| triple(module).is_some_and(|triple| triple.starts_with(NVIDIA))).collect()
}

fn sections_of(image: &[u8], is_meant: impl Fn(&str) -> bool) -> Vec<(String, &[u8])> {
    let found = elf::sections(image).into_iter().filter(|(name, _)| is_meant(name));
    found.map(|(name, contents)| (name.to_owned(), contents)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitcode::tests::module;
    use crate::cubin::tests::assemble;

    fn variable(name: &str, bytes: &[u8]) -> String {
        let numbers: Vec<String> = bytes.iter().map(ToString::to_string).collect();
        format!(".global .align 1 .b8 {name}[{}] = {{{}}};\n", bytes.len(), numbers.join(", "))
    }

    #[test]
    fn proteuss_modules_come_before_clangs() {
        let (one, two) = (module("nvptx64-nvidia-cuda", "one"), module("nvptx64-nvidia-cuda", "two"));
        let ptx = |variables: &str| {
            format!(
                ".version 8.1\n.target sm_90\n.address_size 64\n{variables}.visible .global .align 4 .u32 own = 1;\n.visible .entry k() {{ ret; }}\n"
            )
        };
        let clangs = variable(CLANG_MODULE, &one) + &variable(CLANG_OPTIONS, b"-O3");
        for (variables, expected) in [
            (clangs.clone(), Some((IrProducer::Clang, vec![&one[..]]))),
            (clangs + ".visible " + &variable("_jit_bitcode_tu_1", &two), Some((IrProducer::Proteus, vec![&two[..]]))),
            (variable(CLANG_MODULE, b"something else"), None),
        ] {
            let Some(image) = assemble(&ptx(&variables), "sm_90") else { return };
            let cubin = cubin::parse(&image).unwrap();
            assert_eq!(in_cubin(&image, &cubin), expected);
            let own: Vec<_> = cubin
                .variables
                .iter()
                .filter(|variable| !is_foreign(&variable.name))
                .map(|variable| &variable.name)
                .collect();
            assert_eq!(own, ["own"]);
        }
    }

    /// A relocatable object with the given section, made by the assembler of this machine.
    fn object(section: &str, contents: &[&[u8]]) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join("s.s"), folder.path().join("s.o"));
        let mut text = format!(".section {section},\"\",@progbits\n");
        for (number, bytes) in contents.iter().enumerate() {
            let part = folder.path().join(number.to_string());
            std::fs::write(&part, bytes).unwrap();
            text += &format!(".incbin \"{}\"\n", part.display());
        }
        std::fs::write(&source, text).unwrap();
        let Ok(status) = std::process::Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&object).status() else {
            mneme_fixtures::skip("no C compiler on this machine");
            return None;
        };
        assert!(status.success());
        Some(std::fs::read(object).unwrap())
    }

    #[test]
    fn of_an_objects_modules_those_for_the_device_are_meant() {
        let (device, host) = (module("nvptx64-nvidia-cuda", "_Z4stepPf"), module("x86_64-pc-linux-gnu", "_Z4stepPf"));
        let Some(image) = object(CLANG_SECTION, &[&host, &device, &[0; 8], &device]) else { return };
        assert_eq!(in_object(&image), [&device[..]; 2]);
        let Some(image) = object(".jit.bitcode._Z4stepPf.5eed", &[&device]) else { return };
        assert!(in_object(&image).is_empty());
        assert_eq!(in_code_object(&image), [(".jit.bitcode._Z4stepPf.5eed".to_owned(), &device[..])]);
    }
}
