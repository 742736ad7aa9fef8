//! Features of definitions that a recording of memory alone cannot contain.
//!
//! They are found in the text: texture and surface accesses, and calls through pointers.
//!
//! A recording has texture and surface objects besides memory. An address of code is valid for one load of
//! one module: a call through a pointer from memory (a function pointer, a virtual table) would jump to the code of the
//! recorded module, and a kernel that stores such an address stores another one in a replay. A pointer that the
//! optimiser has resolved is a direct call in the text, and an object that it has dissolved stores nothing.
//!
//! Calls of virtual functions are distinguished from other calls through pointers: an object contains the address of
//! its class's table, and a replay can put the tables at their recorded addresses, with its own functions in them.

use std::collections::HashMap;

use mneme_image::ir_section::{CODE_ADDRESS, INDIRECT_CALL, TEXTURE, VIRTUAL_CALL};

/// Mnemonics of PTX for textures and surfaces, which CUDA's headers use in inline assembly.
const ACCESSES: [&str; 7] = ["tex.", "tld4.", "txq.", "suld.", "sust.", "sured.", "suq."];

/// The address space of global memory, as written after a pointer type.
const GLOBAL: &str = " addrspace(1)";
/// Intrinsics for AMD's images, i.e. textures and surfaces.
const AMD_IMAGES: &str = "llvm.amdgcn.image.";

/// The feature names of [`mneme_image::ir_section`] for a definition (textual IR). `is_code` says whether a name
/// is a function, or a variable that contains addresses of functions.
pub fn of(
    definition: &str,
    is_code: impl Fn(&str) -> bool,
    is_table_access: impl Fn(&str) -> bool,
) -> Vec<&'static str> {
    let calls: Vec<Callee<'_>> = definition.lines().filter_map(callee).collect();
    let mut found = Vec::new();
    if calls.iter().any(Callee::accesses_texture) {
        found.push(TEXTURE);
    }
    let pointers: Vec<&str> =
        calls.iter().filter_map(|callee| if let Callee::Pointer(name) = callee { Some(*name) } else { None }).collect();
    if !pointers.is_empty() {
        let values: HashMap<&str, &str> =
            definition.lines().filter_map(|line| line.trim_start().split_once(" = ")).collect();
        let is_virtual = |name: &&str| from_table(name, &values, &is_table_access);
        found.extend(pointers.iter().any(is_virtual).then_some(VIRTUAL_CALL));
        found.extend((!pointers.iter().all(is_virtual)).then_some(INDIRECT_CALL));
    }
    if definition.starts_with("define ") && definition.lines().skip(1).any(|line| values(line).any(&is_code)) {
        found.push(CODE_ADDRESS);
    }
    found
}

/// The type nodes in the metadata of a module's text that mark accesses to an object's table pointer (`!tbaa`).
pub fn table_accesses(text: &str) -> Vec<&str> {
    let nodes: HashMap<&str, &str> =
        text.lines().filter(|line| line.starts_with('!')).filter_map(|line| line.split_once(" = ")).collect();
    let is_table_pointer = |node: &str| nodes.get(node).is_some_and(|text| text.starts_with("!{!\"vtable pointer\""));
    let base = |text: &str| {
        text.strip_prefix("!{").and_then(|list| list.split([',', '}']).next()).is_some_and(is_table_pointer)
    };
    nodes.iter().filter(|(_, text)| base(text)).map(|(name, _)| *name).collect()
}

/// Whether a pointer was loaded from an object's table: from an element behind a loaded table pointer.
fn from_table(pointer: &str, values: &HashMap<&str, &str>, is_table_access: impl Fn(&str) -> bool) -> bool {
    // AMD's tables and functions are in the address space of global memory.
    let after = |name: &str, operation: &str| {
        let operands = values.get(name)?.strip_prefix(operation)?.strip_prefix(" ptr")?;
        let operands = operands.strip_prefix(GLOBAL).unwrap_or(operands).strip_prefix(", ptr")?;
        operands.strip_prefix(GLOBAL).unwrap_or(operands).trim_start().split(',').next()
    };
    let table = after(pointer, "load").map(|element| after(element, "getelementptr inbounds").unwrap_or(element));
    let access =
        table.filter(|table| after(table, "load").is_some()).and_then(|table| values.get(table)?.split_once("!tbaa "));
    access.is_some_and(|(_, tag)| is_table_access(tag.split(',').next().unwrap_or(tag).trim()))
}

/// The global names in an instruction, except the callee.
fn values(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('@').filter_map(|(at, _)| {
        let name = &line[at..];
        let end = name_end(name);
        (!name[end..].starts_with('(')).then(|| name[1..end].trim_matches('"'))
    })
}

/// The length of the name at the start of a text, including sign and quotes.
fn name_end(name: &str) -> usize {
    match name[1..].strip_prefix('"') {
        Some(quoted) => quoted.find('"').map_or(name.len(), |end| end + 3),
        None => {
            let outside = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '-'));
            name[1..].find(outside).map_or(name.len(), |end| end + 1)
        }
    }
}

enum Callee<'t> {
    Function(&'t str),
    Assembly(&'t str),
    Pointer(&'t str),
}

impl Callee<'_> {
    fn accesses_texture(&self) -> bool {
        match self {
            Self::Function(name) => {
                let nvidia = name.strip_prefix("llvm.nvvm.");
                name.starts_with(AMD_IMAGES)
                    || nvidia.is_some_and(|name| ACCESSES.iter().any(|access| name.starts_with(access)))
            }
            // A statement begins the text, or follows a separator or a predicate.
            Self::Assembly(text) => text
                .split([';', '{', '\\', ' ', '\t'])
                .any(|word| ACCESSES.iter().any(|access| word.starts_with(access))),
            Self::Pointer(_) => false,
        }
    }
}

/// The callee of an instruction. Types and attributes come before it; it is the first name with its arguments directly
/// behind it.
fn callee(line: &str) -> Option<Callee<'_>> {
    let instruction = line.trim_start();
    let instruction = match instruction.split_once(" = ") {
        Some((result, rest)) if result.starts_with('%') => rest,
        _ => instruction,
    };
    let words = instruction.trim_start_matches("tail ").trim_start_matches("musttail ").trim_start_matches("notail ");
    let rest = words.strip_prefix("call ").or_else(|| words.strip_prefix("invoke "))?;
    if let Some((_, assembly)) = rest.split_once(" asm ").or_else(|| rest.strip_prefix("asm ").map(|rest| ("", rest))) {
        let text = assembly.split('"').nth(1).unwrap_or_default();
        return Some(Callee::Assembly(text));
    }
    let mut at = 0;
    while let Some(found) = rest[at..].find(['@', '%']) {
        let name = &rest[at + found..];
        let end = name_end(name);
        if name[end..].starts_with('(') {
            return Some(if name.starts_with('@') {
                Callee::Function(name[1..end].trim_matches('"'))
            } else {
                Callee::Pointer(&name[..end])
            });
        }
        at += found + end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_through_pointers_are_found() {
        for line in [
            "  call void %5(ptr %4)",
            "  %9 = tail call noundef i64 %8(ptr noundef nonnull align 8 dereferenceable(16) %7) #3",
            "  %a = call %struct.S %f()",
        ] {
            assert_eq!(of(line, |_| false, |_| false), [INDIRECT_CALL], "{line}");
        }
        for line in [
            "  call void @f(ptr %4)",
            "  %9 = call %struct.S @\"odd name\"(ptr %1, i32 2)",
            "  %3 = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            "  %4 = call i32 (ptr, ...) @variadic(ptr %1)",
            "  call void asm sideeffect \"bar.sync 0;\", \"r\"(i32 %1)",
            "  %5 = load ptr, ptr %4, align 8",
        ] {
            assert!(of(line, |_| false, |_| false).is_empty(), "{line}");
        }
    }

    #[test]
    fn calls_of_virtual_functions_are_told_from_others() {
        let text = "define void @k(ptr %p) {\n  %7 = load ptr, ptr %p, align 8, !tbaa !11\n  %10 = load ptr, ptr %7, align 8, !tbaa !19\n  \
            %11 = getelementptr inbounds ptr, ptr %10, i64 3\n  %12 = load ptr, ptr %11, align 8\n  %13 = call noundef i64 %12(ptr %7) #6\n}\n\
            !11 = !{!12, !12, i64 0}\n!12 = !{!\"any pointer\", !13, i64 0}\n!19 = !{!20, !20, i64 0}\n!20 = !{!\"vtable pointer\", !14, i64 0}\n";
        let accesses = table_accesses(text);
        assert_eq!(accesses, ["!19"]);
        let of = |text: &str| of(text, |_| false, |tag| accesses.contains(&tag));
        assert_eq!(of(text), [VIRTUAL_CALL]);
        let amd = text
            .replace("%10 = load ptr, ptr", "%10 = load ptr addrspace(1), ptr")
            .replace("inbounds ptr, ptr %10", "inbounds ptr addrspace(1), ptr addrspace(1) %10")
            .replace("%12 = load ptr, ptr", "%12 = load ptr addrspace(1), ptr addrspace(1)")
            .replace("call noundef i64", "call noundef addrspace(1) i64");
        assert_eq!(of(&amd), [VIRTUAL_CALL]);
        assert_eq!(of(&text.replace("!tbaa !19", "!tbaa !11")), [INDIRECT_CALL]);
        assert_eq!(of(&text.replace("call noundef i64 %12(", "call noundef i64 %10(")), [INDIRECT_CALL]);
        assert_eq!(of(&text.replace("#6\n", "#6\n  call void %p()\n")), [VIRTUAL_CALL, INDIRECT_CALL]);
    }

    #[test]
    fn texture_and_surface_accesses_are_found() {
        for line in [
            "  %1 = call { float, float, float, float } @llvm.nvvm.tex.unified.1d.v4f32.s32(i64 %0, i32 %2)",
            "  %2 = call { float, float, float, float } asm \"tex.1d.v4.f32.s32 {$0, $1, $2, $3}, [$4, {$5}];\", \"=f,=f,=f,=f,l,r\"(i64 %0, i32 %1)",
            "  %1 = tail call <4 x float> @llvm.amdgcn.image.sample.2d.v4f32.f32(i32 15, float %32, float %33, <8 x i32> %36)",
            "  call void asm sideeffect \"sust.b.1d.b32.trap [$0, {$1}], {$2};\", \"l,r,r\"(i64 %0, i32 %1, i32 %2)",
        ] {
            assert_eq!(of(line, |_| false, |_| false), [TEXTURE], "{line}");
        }
        assert!(of("  call void @texture.helper(i32 1)", |_| false, |_| false).is_empty());
    }

    #[test]
    fn addresses_of_code_as_values_are_found() {
        let is_code = |name: &str| matches!(name, "f" | "_ZTV1A" | "odd name");
        for line in [
            "store ptr @f, ptr %0",
            "store ptr getelementptr inbounds (i8, ptr @_ZTV1A, i64 16), ptr %p",
            "%1 = select i1 %0, ptr @\"odd name\", ptr null",
        ] {
            assert_eq!(of(&format!("define void @k() {{\n  {line}\n}}"), is_code, |_| false), [CODE_ADDRESS], "{line}");
        }
        for line in ["call void @f(ptr @data)", "%1 = load i32, ptr @f.data"] {
            assert!(of(&format!("define void @f() {{\n  {line}\n}}"), is_code, |_| false).is_empty(), "{line}");
        }
    }
}
