//! Records of live memory, handles and code.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

use mneme_abi::hip::types::*;

use crate::mistake::{Mistake, report, wrong};
use crate::profiler;

/// If set, memory that is never freed counts as a mistake at the end of the process.
const LEAKS: &str = "MNEME_STAND_IN_LEAKS";

/// The function that allocated memory, which decides how to free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySource {
    Malloc,
    Managed,
    Pool,
    Host,
    Registered,
    /// A variable of a loaded module.
    Module(usize),
}

impl MemorySource {
    /// The function that frees it.
    pub fn freed_by(self) -> &'static str {
        match self {
            Self::Malloc | Self::Managed => "hipFree",
            Self::Pool => "hipFreeAsync or hipFree",
            Self::Host => "hipHostFree",
            Self::Registered => "hipHostUnregister",
            Self::Module(_) => "hipModuleUnload",
        }
    }
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBlock {
    pub size: u64,
    pub source: MemorySource,
}

/// Physical memory of `hipMemCreate`.
#[derive(Clone, Copy, Debug)]
pub struct Physical {
    pub size: u64,
    /// Handles to it that are still live.
    pub handles: u32,
}

/// Physical memory at an address.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub size: u64,
    /// The access that `hipMemSetAccess` has allowed. `None` before.
    pub access: Option<u32>,
}

pub const ACCESS_NONE: u32 = 0;
pub const ACCESS_READ: u32 = 1;
pub const ACCESS_READ_WRITE: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub timed: bool,
    pub recorded: bool,
}

/// How a call uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
}

#[derive(Default)]
pub struct Books {
    pub blocks: BTreeMap<u64, MemoryBlock>,
    /// Start and size of memory that was freed and not reallocated.
    pub freed: BTreeMap<u64, u64>,
    pub reserved: BTreeMap<u64, u64>,
    pub physical: BTreeMap<u64, Physical>,
    pub mappings: BTreeMap<u64, Mapping>,
    pub streams: HashSet<usize>,
    pub events: HashMap<usize, Event>,
    /// Whether the program created it.
    pub pools: HashMap<usize, bool>,
    /// Names of the kernels in the code object, if it contains them.
    pub modules: HashMap<usize, Option<Vec<String>>>,
    /// Module and name of each function.
    pub functions: HashMap<usize, (usize, String)>,
    /// Handles that were released.
    pub gone: HashSet<usize>,
}

static BOOKS: LazyLock<Mutex<Books>> = LazyLock::new(Mutex::default);

pub fn books() -> MutexGuard<'static, Books> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry that holds an address.
fn holding<T: Copy>(map: &BTreeMap<u64, T>, address: u64, size: impl Fn(&T) -> u64) -> Option<(u64, T)> {
    let (start, entry) = map.range(..=address).next_back()?;
    (address < start + size(entry)).then_some((*start, *entry))
}

/// An entry that overlaps a range.
pub fn overlapping<T: Copy>(map: &BTreeMap<u64, T>, start: u64, size: u64, of: impl Fn(&T) -> u64) -> Option<(u64, T)> {
    let (at, entry) = map.range(..start.saturating_add(size)).next_back()?;
    (at + of(entry) > start).then_some((*at, *entry))
}

impl Books {
    pub fn allocated(&mut self, address: u64, size: u64, source: MemorySource) {
        while let Some((start, _)) = overlapping(&self.freed, address, size, |size| *size) {
            self.freed.remove(&start);
        }
        self.blocks.insert(address, MemoryBlock { size, source });
    }

    /// Removes an allocation. `function` frees it.
    pub fn release(&mut self, address: u64, allowed: &[MemorySource]) -> Result<MemoryBlock, Mistake> {
        let Some(block) = self.blocks.get(&address).copied() else {
            return match holding(&self.blocks, address, |block| block.size) {
                Some((start, block)) => wrong(format!(
                    "0x{address:x} is inside the allocation 0x{start:x}+0x{:x} and not its start",
                    block.size
                )),
                None if self.freed.contains_key(&address) => wrong(format!("0x{address:x} was freed before")),
                None => wrong(format!("0x{address:x} was never allocated")),
            };
        };
        if !allowed.contains(&block.source) {
            return wrong(format!("0x{address:x} is freed by {}", block.source.freed_by()));
        }
        self.blocks.remove(&address);
        self.freed.insert(address, block.size);
        Ok(block)
    }

    /// Checks whether device code or a copy may use a range of the device's memory.
    pub fn check_use(&self, address: u64, size: u64, usage: Use) -> Result<(), Mistake> {
        if size == 0 {
            return Ok(());
        }
        let range = format!("0x{address:x}+0x{size:x}");
        let end = address.checked_add(size);
        let fits = |start: u64, length: u64| end.is_some_and(|end| end <= start + length);
        if let Some((start, block)) = holding(&self.blocks, address, |block| block.size) {
            if !fits(start, block.size) {
                return wrong(format!("{range} ends behind its allocation, 0x{start:x}+0x{:x}", block.size));
            }
            return Ok(());
        }
        if let Some((start, mapping)) = holding(&self.mappings, address, |mapping| mapping.size) {
            if !fits(start, mapping.size) {
                return wrong(format!(
                    "{range} ends behind its mapping, 0x{start:x}+0x{:x}; AMD's library takes no range over two",
                    mapping.size
                ));
            }
            return match (mapping.access, usage) {
                (None | Some(ACCESS_NONE), _) => {
                    wrong(format!("{range} is mapped, and hipMemSetAccess has given no access to it"))
                }
                (Some(ACCESS_READ), Use::Write) => wrong(format!("{range} may only be read")),
                _ => Ok(()),
            };
        }
        if holding(&self.freed, address, |size| *size).is_some() {
            return wrong(format!("{range} was freed"));
        }
        if holding(&self.reserved, address, |size| *size).is_some() {
            return wrong(format!("{range} is reserved, and nothing is mapped there"));
        }
        wrong(format!("{range} is no memory of the device"))
    }

    /// Whether an address is in known memory.
    pub fn knows(&self, address: u64) -> bool {
        holding(&self.blocks, address, |block| block.size)
            .is_some_and(|(_, block)| block.source != MemorySource::Registered)
            || holding(&self.mappings, address, |mapping| mapping.size).is_some()
            || holding(&self.reserved, address, |size| *size).is_some()
    }

    /// Checks that a handle is live.
    pub fn check_handle(&self, live: bool, handle: usize, what: &str) -> Result<(), Mistake> {
        if live {
            Ok(())
        } else if handle == 0 {
            wrong(format!("the {what} is null"))
        } else if self.gone.contains(&handle) {
            wrong(format!("the {what} 0x{handle:x} was destroyed before"))
        } else {
            wrong(format!("0x{handle:x} is no {what}"))
        }
    }

    /// Checks a stream. The driver's numbers for the default streams are valid too.
    pub fn check_stream(&self, stream: CUstream) -> Result<(), Mistake> {
        let handle = stream as usize;
        self.check_handle(handle <= STREAM_PER_THREAD || self.streams.contains(&handle), handle, "stream")
    }

    pub fn check_event(&self, event: CUevent) -> Result<Event, Mistake> {
        let handle = event as usize;
        let known = self.events.get(&handle).copied();
        self.check_handle(known.is_some(), handle, "event")?;
        Ok(known.expect("just checked"))
    }

    pub fn check_module(&self, module: CUmodule) -> Result<(), Mistake> {
        let handle = module as usize;
        self.check_handle(self.modules.contains_key(&handle), handle, "module")
    }

    /// Returns the function's name.
    pub fn check_function(&self, function: CUfunction) -> Result<&str, Mistake> {
        let handle = function as usize;
        match self.functions.get(&handle) {
            Some((module, name)) if self.modules.contains_key(module) => Ok(name),
            Some((_, name)) => wrong(format!("the module of {name} was unloaded before")),
            None => {
                self.check_handle(false, handle, "function")?;
                wrong("")
            }
        }
    }

    /// Describes the remaining objects. `None` if there are none.
    fn left(&self) -> Option<String> {
        let count = |number: usize, what: &str| (number > 0).then(|| format!("{number} {what}"));
        let own = |block: &&MemoryBlock| !matches!(block.source, MemorySource::Module(_));
        let left: Vec<String> = [
            count(self.blocks.values().filter(own).count(), "allocations"),
            count(self.mappings.len(), "mappings"),
            count(self.reserved.len(), "reservations"),
            count(self.physical.values().filter(|memory| memory.handles > 0).count(), "handles of memory"),
            count(self.modules.len(), "modules"),
            count(self.streams.len(), "streams"),
            count(self.events.len(), "events"),
            count(self.pools.values().filter(|own| **own).count(), "pools"),
        ]
        .into_iter()
        .flatten()
        .chain(profiler::left())
        .collect();
        (!left.is_empty()).then(|| left.join(", "))
    }
}

/// On request, checks for remaining objects at the end of the process.
pub fn watch_the_end() {
    extern "C" fn at_end() {
        let left = books().left();
        if let Some(left) = left
            && let Err(mistake) = wrong::<()>(format!("never freed: {left}"))
        {
            report("at the end", &mistake);
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os(LEAKS).is_some() {
            // SAFETY: the handlers keep this library loaded until the process ends, so the function stays valid.
            unsafe { libc::atexit(at_end) };
        }
    });
}
