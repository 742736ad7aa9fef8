//! Debug information: the source lines of instructions.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::syntax::{Location, Module, SourceLine};

/// The maximum depth of calls to follow from inlined code.
const MOST_CALLS: u32 = 64;
/// The largest column that LLVM supports.
const LAST_COLUMN: u32 = u16::MAX as u32;

/// A module's metadata for the source of its code.
pub struct DebugInfo<'a> {
    module: &'a Module<'a>,
    /// The nodes, by number.
    nodes: Vec<String>,
    numbers: HashMap<String, usize>,
    unit: Option<usize>,
}

/// The source locations of one function's instructions.
pub struct FunctionLines {
    file: u32,
    pub subprogram: usize,
    /// The node for instructions without a known source.
    nowhere: usize,
    /// The node of the last location at each place, and its distance in calls from the function.
    places: HashMap<SourceLine, (usize, u32)>,
    /// The nodes of directives seen so far.
    known: HashMap<usize, usize>,
}

impl<'a> DebugInfo<'a> {
    pub fn new(module: &'a Module<'a>) -> Self {
        Self { module, nodes: Vec::new(), numbers: HashMap::new(), unit: None }
    }

    fn node(&mut self, text: String) -> usize {
        let next = self.nodes.len();
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.nodes.push(text.clone());
            next
        })
    }

    /// A file by its declared number.
    fn file(&mut self, number: u32) -> Option<usize> {
        let names = self.module.files.get(&number)?;
        let name = quoted(names.join("/").as_bytes());
        Some(self.node(format!("!DIFile(filename: {name}, directory: \"\")")))
    }

    fn subprogram(&mut self, name: &[u8], file: usize) -> usize {
        let unit = match self.unit {
            Some(unit) => unit,
            None => {
                let unit = self.node(format!(
                    "distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !{file}, producer: \"PTX, lifted\", \
                     isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
                ));
                *self.unit.insert(unit)
            }
        };
        let types = self.node("!{}".into());
        let ty = self.node(format!("!DISubroutineType(types: !{types})"));
        self.node(format!(
            "distinct !DISubprogram(name: {}, scope: !{file}, file: !{file}, type: !{ty}, unit: !{unit}, \
             spFlags: DISPFlagDefinition | DISPFlagOptimized)",
            quoted(name)
        ))
    }

    /// The source function at the first of these locations with a declared file; `None` if there is none.
    pub fn function(&mut self, name: &str, locations: impl Iterator<Item = usize>) -> Option<FunctionLines> {
        let module = self.module;
        let mut places = locations.map(|number| {
            let location = &module.locations[number];
            location.inlined_at.unwrap_or(location.place).file
        });
        let file = places.find(|file| module.files.contains_key(file))?;
        let node = self.file(file)?;
        let subprogram = self.subprogram(name.as_bytes(), node);
        let nowhere = self.node(format!("!DILocation(line: 0, scope: !{subprogram})"));
        Some(FunctionLines { file, subprogram, nowhere, places: HashMap::new(), known: HashMap::new() })
    }

    /// The node for the instructions after a directive, or without one.
    pub fn location(&mut self, lines: &mut FunctionLines, number: Option<usize>) -> usize {
        let Some(number) = number else { return lines.nowhere };
        if let Some(node) = lines.known.get(&number) {
            return *node;
        }
        let node = self.new_location(lines, &self.module.locations[number]).unwrap_or(lines.nowhere);
        lines.known.insert(number, node);
        node
    }

    fn new_location(&mut self, lines: &mut FunctionLines, location: &Location<'_>) -> Option<usize> {
        let place = location.place;
        let file = self.file(place.file)?;
        let (mut scope, mut calls, mut inlined_at) = (lines.subprogram, 0, None);
        if let Some(call) = location.inlined_at {
            // Code inlined at a call in inlined code is preceded by a location of that code.
            let known = lines.places.get(&call).copied().filter(|(_, calls)| *calls < MOST_CALLS);
            let (node, outer) = match known {
                Some(known) => known,
                None => (self.at(call, lines.file, lines.subprogram, None)?, 0),
            };
            let name = location.function.and_then(|name| name_of(self.module, name));
            scope = self.subprogram(name.unwrap_or(b"?"), file);
            (calls, inlined_at) = (outer + 1, Some(node));
        }
        let own_file = if inlined_at.is_some() { place.file } else { lines.file };
        let node = self.at(place, own_file, scope, inlined_at)?;
        lines.places.insert(place, (node, calls));
        Some(node)
    }

    /// The location at a place of a function in `file`.
    fn at(&mut self, place: SourceLine, file: u32, function: usize, inlined_at: Option<usize>) -> Option<usize> {
        let own = self.file(place.file)?;
        let scope = match place.file == file {
            true => function,
            false => self.node(format!("!DILexicalBlockFile(scope: !{function}, file: !{own}, discriminator: 0)")),
        };
        let column = if place.column > LAST_COLUMN { 0 } else { place.column };
        let mut text = format!("!DILocation(line: {}, column: {column}, scope: !{scope}", place.line);
        if let Some(call) = inlined_at {
            let _ = write!(text, ", inlinedAt: !{call}");
        }
        Some(self.node(text + ")"))
    }

    /// Writes the nodes, numbered from 0; returns the next free number.
    pub fn write(&self, ir: &mut String) -> usize {
        for (number, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(ir, "!{number} = {node}");
        }
        let Some(unit) = self.unit else { return self.nodes.len() };
        let next = self.nodes.len();
        let _ = writeln!(
            ir,
            "!{next} = !{{i32 2, !\"Debug Info Version\", i32 3}}\n!llvm.module.flags = !{{!{next}}}\n!llvm.dbg.cu = !{{!{unit}}}"
        );
        next + 1
    }
}

/// The name at a label of `.debug_str`.
fn name_of<'m>(module: &'m Module<'_>, (label, offset): (&str, i64)) -> Option<&'m [u8]> {
    let start = i64::try_from(*module.name_labels.get(label)?).ok()?.checked_add(offset)?;
    let bytes = module.names.get(usize::try_from(start).ok()?..)?;
    bytes.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())
}

/// A string of LLVM's assembly.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => {
                let _ = write!(text, "\\{byte:02X}");
            }
            _ => text.push(*byte as char),
        }
    }
    text + "\""
}
