//! The table in section `.mneme.cpu` of a CPU code object (docs/reference/cpu-code-objects.md).

use goblin::elf::Elf;
use serde::{Deserialize, Serialize};

use super::elf;

pub const SECTION: &str = ".mneme.cpu";
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTable {
    pub version: u32,
    pub kernels: Vec<CpuKernel>,
    pub variables: Vec<CpuVariable>,
    pub refused: Vec<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuKernel {
    /// Mangled name in the application.
    pub name: String,
    /// Symbol of the entry, `extern "C" fn(params: *const u8)`.
    pub entry: String,
    pub parameters: Vec<CpuParameter>,
    /// Size of the parameter buffer, bytes.
    pub parameter_bytes: u32,
    /// Offset of dynamic shared memory from the block's shared base: the static shared memory, rounded up, bytes.
    pub dynamic_shared_offset: u32,
    /// Static shared memory, bytes.
    pub static_shared: u32,
    /// Whether threads of a block may wait for one another (barriers, warp operations).
    pub collective: bool,
    /// Launch bound (threads of a block) the kernel was compiled with, 0 = none.
    #[serde(default)]
    pub max_threads: u32,
    /// Lanes of a warp: 32, or 64 for some AMD processors.
    #[serde(default = "warp_size_of_cuda")]
    pub warp_size: u32,
    /// Blocks of a cluster along each axis for which the kernel was compiled; zeros without a fixed cluster.
    #[serde(default)]
    pub cluster: [u32; 3],
}

fn warp_size_of_cuda() -> u32 {
    32
}

/// One kernel parameter in the parameter buffer; offset and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuParameter {
    pub offset: u32,
    pub size: u32,
}

/// A `__device__` or `__constant__` variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuVariable {
    pub name: String,
    /// Symbol in the object, of `size` bytes.
    pub symbol: String,
    pub size: u64,
    pub constant: bool,
}

/// A kernel that the CPU device cannot run, and the reason ("inline PTX `...`", "texture `tex.2d`").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub kernel: String,
    pub reason: String,
}

/// Variables that kernels may write to.
pub fn writable(object: &[u8]) -> Vec<String> {
    let table = elf::section(object, SECTION).and_then(|table| serde_json::from_slice::<CpuTable>(table).ok());
    let variables = table.map(|table| table.variables).unwrap_or_default();
    variables.into_iter().filter(|variable| !variable.constant).map(|variable| variable.name).collect()
}

/// Whether a kernel may call this function of the device: in its own code, or in a helper function.
pub fn calls(object: &[u8], kernel: &str, function: &str) -> bool {
    let table = elf::section(object, SECTION).and_then(|table| serde_json::from_slice::<CpuTable>(table).ok());
    let (Some(table), Ok(elf)) = (table, Elf::parse(object)) else { return false };
    let name = |symbol: &goblin::elf::Sym| elf.strtab.get_at(symbol.st_name);
    let is_other = |symbol: &goblin::elf::Sym| {
        table.kernels.iter().any(|other| other.name != kernel && name(symbol) == Some(&other.entry))
    };
    let others: Vec<_> = elf.syms.iter().filter(is_other).collect();
    elf.shdr_relocs.iter().any(|(header, relocations)| {
        let section = elf.section_headers.get(*header).map(|header| header.sh_info as usize);
        relocations.iter().any(|relocation| {
            let is_others = others.iter().any(|other| {
                let place = other.st_value..other.st_value.saturating_add(other.st_size);
                Some(other.st_shndx) == section && place.contains(&relocation.r_offset)
            });
            !is_others && elf.syms.get(relocation.r_sym).as_ref().and_then(name) == Some(function)
        })
    })
}

/// Variables with addresses of code or variables in their initial values.
pub fn holding_addresses(object: &[u8]) -> Vec<String> {
    let table = elf::section(object, SECTION).and_then(|table| serde_json::from_slice::<CpuTable>(table).ok());
    let (Some(table), Ok(elf)) = (table, Elf::parse(object)) else { return Vec::new() };
    let relocated = |section: usize, place: std::ops::Range<u64>| {
        elf.shdr_relocs.iter().any(|(header, relocations)| {
            let target = elf.section_headers.get(*header).map(|header| header.sh_info as usize);
            target == Some(section) && relocations.iter().any(|relocation| place.contains(&relocation.r_offset))
        })
    };
    let holds = |variable: &CpuVariable| {
        let named = |symbol: &goblin::elf::Sym| elf.strtab.get_at(symbol.st_name) == Some(&variable.symbol);
        let symbol = elf.syms.iter().find(named);
        symbol.is_some_and(|symbol| {
            relocated(symbol.st_shndx, symbol.st_value..symbol.st_value.saturating_add(variable.size))
        })
    };
    table.variables.iter().filter(|variable| holds(variable)).map(|variable| variable.name.clone()).collect()
}
