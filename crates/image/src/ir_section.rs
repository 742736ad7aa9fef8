//! Section `.mneme.ir`: the LLVM IR of device code inside a host ELF object.
//!
//! The section is a run of self-delimiting records, one for each translation unit and architecture; linkers
//! concatenate them, with zero padding in between. A record is
//!
//! ```text
//! "MNEMEIR1"                      8 bytes, the record starts at a multiple of 8 in its object file
//! u64 length of the whole record, bytes, a multiple of 8
//! u64 length of the table, bytes
//! u64 length of the stored bitcode, bytes
//! u64 checksum (XXH3-64) of table and stored bitcode
//! table: JSON, see [`IrTable`]
//! bitcode, zstd-compressed; then zeros up to the length
//! ```
//!
//! all numbers little endian. The table lets a reader without LLVM find a kernel, its arguments and the units that
//! its closure needs.

use std::borrow::{Borrow, Cow};

use mneme_model::compile_options::CompileOptions;
use mneme_model::hash::{Hash64, checksum};
use serde::{Deserialize, Serialize};

pub const SECTION: &str = ".mneme.ir";
const MAGIC: &[u8; 8] = b"MNEMEIR1";
const HEADER: usize = 40;
/// An upper bound on the decompressed size of one unit's bitcode, bytes; larger sizes are damage.
const MAX_BITCODE: usize = 1 << 28;
/// LLVM's address space of constant memory.
const CONSTANT_SPACE: u32 = 4;

/// The name of an undefined function that marks accesses to textures and surfaces.
pub const TEXTURE: &str = "mneme.texture";
/// The name of an undefined function that marks addresses of functions, or of tables of them, that are used as values.
pub const CODE_ADDRESS: &str = "mneme.code-address";
/// The name of an undefined function that marks calls through pointers from memory.
pub const INDIRECT_CALL: &str = "mneme.indirect-call";
/// The name of an undefined function that marks calls of virtual functions, which find their tables through an object.
pub const VIRTUAL_CALL: &str = "mneme.virtual-call";
/// The name of an undefined function that marks the heap on the device, for IR that contains its implementation.
pub const DEVICE_HEAP: &str = "mneme.device-heap";
/// The variable in which compiled code counts its allocations on the device's heap.
pub const HEAP_COUNT: &str = "__mneme_heap_allocations";

/// The variable with the initial value of another one, in compiled code that has the other one at a recorded address.
/// PTX names have no `.` or `@`.
pub fn initial_copy(name: &str) -> String {
    format!("__mneme_initial_{}", name.replace(['.', '@'], "_$_"))
}

/// Name prefix of tables of virtual functions (Itanium C++ ABI).
const VIRTUAL_TABLE: &str = "_ZTV";

/// The facts about a unit that a reader needs without its bitcode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IrTable {
    /// GPU architecture, e.g. "sm_90" or "gfx90a".
    pub arch: String,
    /// LLVM target triple of the bitcode, e.g. "nvptx64-nvidia-cuda".
    pub triple: String,
    /// Compilation-unit id: equal for all architectures of one source file.
    pub unit: String,
    /// Source file, for messages.
    pub source: String,
    /// LLVM version that wrote the bitcode, e.g. "19.1.7".
    pub llvm: String,
    /// Whether the unit was compiled for relocatable device code, i.e. may refer to other units.
    pub rdc: bool,
    /// The compilation options of the application's own code; `None` in older sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<CompileOptions>,
    /// Sums of the image that the compiler made of the unit and of that image's parts (see [`crate::sum`]); empty if a
    /// later link makes the image, and in older sections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<u64>,
    pub symbols: Vec<Symbol>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SymbolKind {
    Kernel,
    Function,
    Variable,
}

/// A function or variable that the unit defines or refers to. Intrinsics are omitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Symbol {
    pub name: String,
    pub kind: SymbolKind,
    /// False for a declaration: another unit defines it.
    pub defined: bool,
    /// Visible to other units (external, weak or linkonce linkage).
    pub external: bool,
    /// Hash of the definition's IR text; 0 for a declaration.
    pub hash: u64,
    /// Indices of the symbols that the definition refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<u32>,
    /// Kernels only: their parameters, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<IrArgument>,
    /// Variables only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<VariableInfo>,
}

impl Symbol {
    /// A definition visible to other units, without references and hash.
    pub fn exported(name: impl Into<String>, kind: SymbolKind) -> Self {
        let name = name.into();
        Self { name, kind, defined: true, external: true, hash: 0, refs: vec![], arguments: vec![], variable: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IrArgument {
    /// Source name from the IR, or "".
    pub name: String,
    /// IR type: "ptr", "i32", "float", …; "byval" for an aggregate passed by value, in whichever form.
    pub kind: String,
    /// Offset in the parameter buffer and size, bytes.
    pub offset: u32,
    pub size: u32,
    /// For an aggregate: the offsets of its pointers, bytes; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointers: Option<Vec<u32>>,
}

impl IrArgument {
    /// A parameter that is not an aggregate, or an aggregate without known contents.
    pub fn new(name: impl Into<String>, kind: impl Into<String>, offset: u32, size: u32) -> Self {
        Self { name: name.into(), kind: kind.into(), offset, size, pointers: None }
    }
}

impl IrArgument {
    /// Whether the value may be folded into the code (upstream's rule: i1, i8, i32, i64, float, double).
    pub fn specialisable(&self) -> bool {
        matches!(self.kind.as_str(), "i1" | "i8" | "i32" | "i64" | "float" | "double")
    }

    pub fn is_pointer(&self) -> bool {
        self.kind == "ptr"
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableInfo {
    /// LLVM address space: 1 global, 3 shared, 4 constant.
    pub space: u32,
    /// Bytes.
    pub size: u64,
    pub align: u32,
    /// A constant table with addresses of functions, such as those of virtual functions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub code: bool,
}

/// One record: a unit for one architecture.
#[derive(Clone, Debug)]
pub struct Unit<'a> {
    pub table: IrTable,
    stored: Cow<'a, [u8]>,
}

impl Unit<'_> {
    /// The LLVM bitcode.
    pub fn bitcode(&self) -> std::io::Result<Vec<u8>> {
        let size = zstd::zstd_safe::get_frame_content_size(&self.stored)
            .ok()
            .flatten()
            .and_then(|size| usize::try_from(size).ok())
            .filter(|size| *size <= MAX_BITCODE)
            .ok_or_else(|| std::io::Error::other("the bitcode's compressed frame is damaged"))?;
        zstd::bulk::decompress(&self.stored, size)
    }

    pub fn into_owned(self) -> Unit<'static> {
        Unit { table: self.table, stored: Cow::Owned(self.stored.into_owned()) }
    }

    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.table.symbols.iter().find(|symbol| symbol.name == name)
    }
}

/// Encodes one record.
pub fn encode(table: &IrTable, bitcode: &[u8]) -> std::io::Result<Vec<u8>> {
    let table = serde_json::to_vec(table)?;
    let stored = zstd::bulk::compress(bitcode, 9)?;
    let mut record = Vec::with_capacity(HEADER + table.len() + stored.len() + 8);
    let length = (HEADER + table.len() + stored.len()).next_multiple_of(8);
    let payload = [&table[..], &stored[..]].concat();
    record.extend_from_slice(MAGIC);
    for number in [length as u64, table.len() as u64, stored.len() as u64, checksum(&payload)] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record.extend_from_slice(&payload);
    record.resize(length, 0);
    Ok(record)
}

/// The records of a section. Damaged records are skipped by searching for the next magic.
pub fn decode(mut section: &[u8]) -> Vec<Unit<'_>> {
    let mut units = Vec::new();
    while let Some(start) = section.windows(8).step_by(1).position(|window| window == MAGIC) {
        section = &section[start..];
        match decode_one(section) {
            Some((unit, length)) => {
                units.push(unit);
                section = &section[length..];
            }
            None => section = &section[MAGIC.len()..],
        }
    }
    units
}

fn decode_one(bytes: &[u8]) -> Option<(Unit<'_>, usize)> {
    let number = |index: usize| -> Option<usize> {
        let field = bytes.get(8 * index..8 * index + 8)?;
        usize::try_from(u64::from_le_bytes(field.try_into().ok()?)).ok()
    };
    let (length, table, stored, sum) = (number(1)?, number(2)?, number(3)?, number(4)?);
    let payload = table.checked_add(stored)?;
    if payload.checked_add(HEADER)? > length || length > bytes.len() {
        return None;
    }
    let payload = bytes.get(HEADER..HEADER + payload)?;
    if checksum(payload) != sum as u64 {
        return None;
    }
    let unit =
        Unit { table: serde_json::from_slice(&payload[..table]).ok()?, stored: Cow::Borrowed(&payload[table..]) };
    Some((unit, length))
}

/// The closure of a kernel: its units and its identity.
#[derive(Debug)]
pub struct Closure {
    /// Indices into the searched units; the kernel's own unit first.
    pub units: Vec<usize>,
    /// Names of device variables (spaces 1 and 4) that the closure reaches, with their unit's index.
    pub variables: Vec<(usize, Symbol)>,
    /// Names that the units refer to but do not define (including `vprintf` and `malloc`).
    pub unresolved: Vec<String>,
    /// 64-bit hash over the definitions of the closure, independent of their order.
    pub static_hash: u64,
    /// Names with several different private definitions in the units, so looking up the name may find the wrong one:
    /// the kernel's, and those of writable variables. (Constants with such a name have the contents in the IR; they are
    /// not among the variables.)
    pub ambiguous: Vec<String>,
}

/// The members of `units` from which the image with this sum was made, or may have been: without a known match, the
/// units without sums. `sum` is `None` for an unknown image.
pub fn of_image<'u, 'a, U: Borrow<Unit<'a>>>(units: &'u [U], sum: Option<u64>) -> Vec<&'u U> {
    let Some(sum) = sum else { return units.iter().collect() };
    let made_it: Vec<&U> = units.iter().filter(|unit| (*unit).borrow().table.images.contains(&sum)).collect();
    if made_it.is_empty() {
        units.iter().filter(|unit| (*unit).borrow().table.images.is_empty()).collect()
    } else {
        made_it
    }
}

/// Follows references from `kernel`, also from an undefined name in one unit to its external definition in another.
/// Only units of `arch` take part. `None` if no unit defines the kernel.
pub fn closure<'a>(units: &[impl Borrow<Unit<'a>>], kernel: &str, arch: &str) -> Option<Closure> {
    let units: Vec<&Unit<'a>> = units.iter().map(Borrow::borrow).collect();
    let units = &units[..];
    let eligible = |unit: &Unit<'_>| unit.table.arch == arch;
    let mut starts = units.iter().enumerate().filter(|(_, unit)| eligible(unit)).filter_map(|(unit_index, unit)| {
        let is_kernel = |symbol: &Symbol| symbol.defined && symbol.kind == SymbolKind::Kernel && symbol.name == kernel;
        Some((unit_index, unit.table.symbols.iter().position(is_kernel)?))
    });
    let mut found = closure_from(units, starts.next()?, kernel, arch);
    if starts.any(|start| closure_from(units, start, kernel, arch).static_hash != found.static_hash) {
        found.ambiguous.insert(0, kernel.to_owned());
    }
    Some(found)
}

/// The closure of the kernel that is symbol `start.1` of unit `start.0`.
fn closure_from(units: &[&Unit<'_>], start: (usize, usize), kernel: &str, arch: &str) -> Closure {
    use std::cell::LazyCell;
    use std::collections::{BTreeSet, HashMap};

    let eligible = |unit: &Unit<'_>| unit.table.arch == arch;
    // Most kernels refer only to their own unit, and a program may have thousands of symbols.
    let exported = LazyCell::new(|| {
        let mut exported: HashMap<&str, (usize, usize)> = HashMap::new();
        for (unit_index, unit) in units.iter().enumerate().filter(|(_, unit)| eligible(unit)) {
            for (index, symbol) in unit.table.symbols.iter().enumerate() {
                if symbol.defined && symbol.external {
                    exported.entry(&symbol.name).or_insert((unit_index, index));
                }
            }
        }
        exported
    });
    let mut reached = BTreeSet::from([start]);
    let mut pending = vec![start];
    let mut order = vec![start.0];
    let mut unresolved = BTreeSet::new();
    while let Some((unit_index, index)) = pending.pop() {
        let symbols = &units[unit_index].table.symbols;
        for reference in &symbols[index].refs {
            let Some(symbol) = symbols.get(*reference as usize) else { continue };
            if symbol.name == VIRTUAL_CALL {
                // The object may belong to any class in the program that this unit is linked into.
                let (tables, hidden) = virtual_tables(units, unit_index);
                unresolved.extend(hidden.then(|| CODE_ADDRESS.to_owned()));
                for (unit_index, index) in tables {
                    let name = units[unit_index].table.symbols[index].name.as_str();
                    let table = exported.get(name).copied().unwrap_or((unit_index, index));
                    if reached.insert(table) {
                        pending.push(table);
                        if !order.contains(&table.0) {
                            order.push(table.0);
                        }
                    }
                }
                continue;
            }
            let target = if symbol.defined {
                (unit_index, *reference as usize)
            } else if let Some(target) = exported.get(symbol.name.as_str()) {
                *target
            } else {
                unresolved.insert(symbol.name.clone());
                continue;
            };
            if reached.insert(target) {
                pending.push(target);
                if !order.contains(&target.0) {
                    order.push(target.0);
                }
            }
        }
    }

    let mut definitions: Vec<(&str, u64)> = reached
        .iter()
        .map(|(unit_index, index)| &units[*unit_index].table.symbols[*index])
        .map(|symbol| (symbol.name.as_str(), symbol.hash))
        .collect();
    definitions.sort_unstable();
    let hash = definitions.iter().fold(Hash64::new().part(kernel.as_bytes()), |hash, (name, definition)| {
        hash.part(name.as_bytes()).number(*definition)
    });
    // Under RDC the units of a program are linked into one module, in which private variables keep their names.
    let is_shared_name = |unit_index: usize, symbol: &Symbol| {
        let others =
            units.iter().enumerate().filter(|(index, unit)| *index != unit_index && eligible(unit) && unit.table.rdc);
        let is_other = |other: &Symbol| {
            other.defined && !other.external && other.kind == SymbolKind::Variable && other.name == symbol.name
        };
        !symbol.external
            && units[unit_index].table.rdc
            && others.flat_map(|(_, unit)| &unit.table.symbols).any(is_other)
    };
    let mut variables = Vec::new();
    let mut ambiguous = Vec::new();
    for (unit_index, index) in reached {
        let symbol = &units[unit_index].table.symbols[index];
        let Some(VariableInfo { space: space @ (0 | 1 | CONSTANT_SPACE), .. }) = symbol.variable else { continue };
        if !is_shared_name(unit_index, symbol) {
            variables.push((unit_index, symbol.clone()));
        } else if space != CONSTANT_SPACE {
            ambiguous.push(symbol.name.clone());
        }
    }
    Closure {
        units: order,
        variables,
        unresolved: unresolved.into_iter().collect(),
        static_hash: hash.finish(),
        ambiguous,
    }
}

/// The tables of virtual functions that objects may refer to in a unit's program, by unit and symbol, and whether there
/// are other tables, which another program cannot place.
fn virtual_tables(units: &[&Unit<'_>], unit: usize) -> (Vec<(usize, usize)>, bool) {
    let own = &units[unit].table;
    let linked = |(index, other): &(usize, &&Unit<'_>)| {
        *index == unit || (own.rdc && other.table.rdc && other.table.arch == own.arch)
    };
    let symbols = units.iter().enumerate().filter(linked).flat_map(|(unit, other)| {
        let tables = other.table.symbols.iter().enumerate();
        tables
            .filter(|(_, symbol)| symbol.defined && symbol.name.starts_with(VIRTUAL_TABLE))
            .map(move |(index, symbol)| (unit, index, symbol))
    });
    let (placed, hidden): (Vec<_>, Vec<_>) =
        symbols.partition(|(_, _, symbol)| symbol.variable.as_ref().is_some_and(|variable| variable.code));
    (placed.into_iter().map(|(unit, index, _)| (unit, index)).collect(), !hidden.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn symbol(name: &str, kind: SymbolKind, defined: bool, refs: &[u32]) -> Symbol {
        Symbol { defined, hash: u64::from(defined) * 7, refs: refs.to_vec(), ..Symbol::exported(name, kind) }
    }

    fn unit(symbols: Vec<Symbol>) -> Unit<'static> {
        let table = IrTable { arch: "sm_90".into(), symbols, ..IrTable::default() };
        let record = encode(&table, b"BC").unwrap();
        decode(&record).remove(0).into_owned()
    }

    #[test]
    fn the_units_of_an_image_are_those_that_became_it() {
        let unit = |images: &[u64]| {
            let table = IrTable { images: images.to_vec(), ..IrTable::default() };
            decode(&encode(&table, b"BC").unwrap()).remove(0).into_owned()
        };
        let units = [unit(&[1, 2]), unit(&[3]), unit(&[])];
        let chosen = |sum| of_image(&units, sum).into_iter().map(|unit| unit.table.images.clone()).collect::<Vec<_>>();
        assert_eq!(chosen(Some(2)), [vec![1, 2]]);
        // Linked with other units, or compiled before sums existed.
        assert_eq!(chosen(Some(4)), [Vec::<u64>::new()]);
        assert_eq!(chosen(None).len(), 3);
    }

    #[test]
    fn records_survive_concatenation_and_padding() {
        let compiled = Some(CompileOptions { level: "2".into(), ..CompileOptions::default() });
        let table = IrTable { arch: "sm_90".into(), unit: "u".into(), compiled, ..IrTable::default() };
        let mut section = vec![0; 16];
        section.extend(encode(&table, b"first").unwrap());
        section.extend([0; 24]);
        section.extend(encode(&table, &[7; 5000]).unwrap());
        let units = decode(&section);
        assert_eq!(units.len(), 2);
        assert_eq!(units[0].bitcode().unwrap(), b"first");
        assert_eq!(units[1].bitcode().unwrap(), [7; 5000]);
    }

    #[test]
    fn a_damaged_record_is_skipped_and_its_neighbour_read() {
        let table = IrTable::default();
        let mut first = encode(&table, b"first").unwrap();
        let last = first.len() - 9;
        first[last] ^= 0x40;
        let section = [first, encode(&table, b"second").unwrap()].concat();
        let units = decode(&section);
        assert_eq!(units.len(), 1);
        assert_eq!(units[0].bitcode().unwrap(), b"second");
    }

    #[test]
    fn the_closure_crosses_units_and_ignores_unrelated_units() {
        let first = unit(vec![
            symbol("kernel", SymbolKind::Kernel, true, &[1]),
            symbol("helper", SymbolKind::Function, false, &[]),
            symbol("stranger", SymbolKind::Function, true, &[]),
        ]);
        let second = unit(vec![
            symbol("helper", SymbolKind::Function, true, &[1]),
            symbol("vprintf", SymbolKind::Function, false, &[]),
        ]);
        let found = closure(&[first.clone(), second.clone()], "kernel", "sm_90").unwrap();
        assert_eq!(found.units, [0, 1]);
        assert_eq!(found.unresolved, ["vprintf"]);
        let mut changed = first.clone();
        changed.table.symbols[2].hash = 99;
        assert_eq!(closure(&[changed, second.clone()], "kernel", "sm_90").unwrap().static_hash, found.static_hash);
        let mut changed = second;
        changed.table.symbols[0].hash = 99;
        assert_ne!(closure(&[first, changed], "kernel", "sm_90").unwrap().static_hash, found.static_hash);
    }

    #[test]
    fn private_names_of_several_units_are_told() {
        let private = |name: &str, space| Symbol {
            external: false,
            variable: Some(VariableInfo { space, size: 4, align: 4, code: false }),
            ..symbol(name, SymbolKind::Variable, true, &[])
        };
        let relocatable = |symbols| {
            let mut unit = unit(symbols);
            unit.table.rdc = true;
            unit
        };
        let symbols = vec![symbol("k", SymbolKind::Kernel, true, &[1, 2]), private("state", 1), private("step", 4)];
        let alone = closure(&[relocatable(symbols.clone())], "k", "sm_90").unwrap();
        assert_eq!((alone.variables.len(), alone.ambiguous.len()), (2, 0));
        let other = vec![private("state", 1), private("step", 4)];
        let found = closure(&[relocatable(symbols.clone()), relocatable(other.clone())], "k", "sm_90").unwrap();
        assert_eq!((found.variables.len(), found.ambiguous), (0, vec!["state".to_owned()]));
        // Without RDC every unit is a separate module.
        let found = closure(&[unit(symbols.clone()), unit(other)], "k", "sm_90").unwrap();
        assert_eq!((found.variables.len(), found.ambiguous.len()), (2, 0));
        // Two kernels with one name: equal definitions (instances of a template), and different ones.
        let twice = [unit(symbols.clone()), unit(symbols.clone())];
        assert!(closure(&twice, "k", "sm_90").unwrap().ambiguous.is_empty());
        let mut different = symbols.clone();
        different[0].hash = 99;
        assert_eq!(closure(&[unit(symbols), unit(different)], "k", "sm_90").unwrap().ambiguous, ["k"]);
    }

    proptest! {
        #[test]
        fn no_input_makes_the_decoder_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            fields in any::<[u64; 4]>(),
        ) {
            decode(&bytes);
            let mut record = MAGIC.to_vec();
            for field in fields { record.extend(field.to_le_bytes()); }
            record.append(&mut bytes);
            decode(&record);
        }
    }
}
