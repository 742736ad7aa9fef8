//! The place of a kernel in its source, read from the debug information of its IR.

/// `folder/file:line` of the definition of `kernel`; `None` if the IR has no debug information.
pub fn source_place(ir: &str, kernel: &str) -> Option<String> {
    let names = [format!("@{kernel}("), format!("@\"{kernel}\"(")];
    let is_definition = |line: &&str| line.starts_with("define ") && names.iter().any(|name| line.contains(name));
    let program = number(ir.lines().find(is_definition)?.split("!dbg !").nth(1)?)?;
    let program = node(ir, program)?;
    let line = number(program.split("line: ").nth(1)?)?;
    let file = node(ir, number(program.split("file: !").nth(1)?)?)?;
    let text = |field: &str| Some(file.split(&format!("{field}: \"")).nth(1)?.split('"').next()?.to_owned());
    let name = text("filename")?;
    let folder = text("directory").filter(|folder| !folder.is_empty() && !name.starts_with('/'));
    Some(folder.map_or_else(|| format!("{name}:{line}"), |folder| format!("{folder}/{name}:{line}")))
}

/// The number at the beginning of a text.
fn number(text: &str) -> Option<&str> {
    text.split(|character: char| !character.is_ascii_digit()).next().filter(|number| !number.is_empty())
}

fn node<'a>(ir: &'a str, number: &str) -> Option<&'a str> {
    let name = format!("!{number} = ");
    ir.lines().find_map(|line| line.strip_prefix(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_that_of_the_definition() {
        let ir = "declare void @_Z1fPf(ptr)\ndefine ptx_kernel void @_Z1fPf(ptr %a) #0 !dbg !7 {\n}\n\
            !1 = !DIFile(filename: \"a.cu\", directory: \"/src\")\n\
            !7 = distinct !DISubprogram(name: \"f\", scope: !1, file: !1, line: 12, type: !8)\n";
        assert_eq!(source_place(ir, "_Z1fPf").as_deref(), Some("/src/a.cu:12"));
        assert_eq!(source_place(ir, "_Z1f"), None);
        assert_eq!(source_place(&ir.replace(" !dbg !7", ""), "_Z1fPf"), None);
        let absolute = ir.replace("a.cu", "/b.cu");
        assert_eq!(source_place(&absolute, "_Z1fPf").as_deref(), Some("/b.cu:12"));
    }
}
