//! Addresses that depend on the module: of its variables, and of its functions.
//!
//! The driver places the variables of code that was not made from IR. They remain part of the recorded memory, which is
//! verified and restored as usual. A launch uses the module's own copy: it is copied there before the launch and back
//! afterwards. Code made from IR has its variables at their recorded addresses.
//!
//! Recorded memory and arguments may hold addresses in the recorded module: objects point to their class's table, and
//! the table to its functions. [`MovedVariables`] replaces these words by the module's own addresses before a launch,
//! and the module's own ones by the recorded ones afterwards. The address of a function is known if the initial value
//! of a variable holds it: the recorded word there stands for the word that the driver has put there in this module.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mneme_device::{Device, DeviceError, DeviceModule};
use mneme_image::ir_section::initial_copy;

use super::resident::{LOWEST, ResidentMemory};
use crate::recording::snapshot::SnapshotRegion;

/// Bytes of an address.
const WORD: usize = 8;

/// The addresses of a module that differ from the recorded ones.
#[derive(Debug, Default)]
pub struct MovedVariables {
    /// Variables that launches use in the module: recorded address, own address, and size.
    copied: Vec<(u64, u64, u64)>,
    to_own: Addresses,
    to_recorded: Addresses,
    /// The addresses of words that hold numbers of functions.
    numbers: Vec<u64>,
    /// Parts of recorded memory that hold addresses in the module: address and size.
    holders: Vec<(u64, u64)>,
    /// The recorded arguments, with the module's addresses.
    arguments: Vec<Vec<u8>>,
    /// Recorded variables that refer to functions and that the module lacks.
    pub missing: Vec<String>,
}

/// A map of addresses.
#[derive(Debug, Default)]
struct Addresses {
    /// The size of the range that begins at an address, and where it begins in the other module.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// NVIDIA's assembler numbers functions if it sees the whole program. A number means anything elsewhere, so it is
    /// replaced only in words that an initial value gives to a function.
    functions: BTreeMap<u64, u64>,
}

impl Addresses {
    fn of(&self, word: u64) -> Option<u64> {
        if let Some(other) = self.functions.get(&word).filter(|other| word.min(**other) >= LOWEST) {
            return Some(*other);
        }
        let (start, (size, to)) = self.ranges.range(..=word).next_back()?;
        // The end of a variable belongs to it, unless another one begins there.
        (word - start <= *size).then(|| to + (word - start))
    }

    /// Replaces the addresses in `bytes`, and returns their number.
    fn apply(&self, bytes: &mut [u8]) -> u64 {
        let mut replaced = 0;
        for word in bytes.as_chunks_mut::<WORD>().0 {
            if let Some(other) = self.of(u64::from_le_bytes(*word)) {
                *word = other.to_le_bytes();
                replaced += 1;
            }
        }
        replaced
    }
}

impl MovedVariables {
    /// Compares a module that was just loaded with the recording, and gives its constants their recorded values. Code
    /// made from IR for the CPU device has no constants in its module.
    ///
    /// # Errors
    /// If the device fails, or the application has changed a pointer to a function so that its function is unknown.
    pub fn of(memory: &ResidentMemory<'_>, module: DeviceModule, arguments: &[Vec<u8>]) -> Result<Self, DeviceError> {
        let device = memory.device();
        let mut moved = Self::default();
        let mut constants = Vec::new();
        for region in memory.regions() {
            let Some(name) = &region.variable else { continue };
            let place = device.variable(module, name)?;
            let numbers = moved.add_functions(memory, module, (region, name), place)?;
            if let Some((own, size)) = place {
                let size = size.min(region.size);
                if own != region.address {
                    moved.to_own.ranges.insert(region.address, (size, own));
                    moved.to_recorded.ranges.insert(own, (size, region.address));
                }
                if region.constant {
                    constants.push((region, own, size, numbers.clone()));
                } else if own != region.address && !region.code {
                    moved.copied.push((region.address, own, size));
                }
            }
            if memory.is_mapped(region) {
                moved.numbers.extend(numbers.iter().map(|offset| region.address + offset));
            }
        }
        let has_variables = !moved.to_own.ranges.is_empty();
        if has_variables || !moved.to_own.functions.is_empty() {
            moved.holders = memory.holders(has_variables);
        }
        for (region, own, size, numbers) in constants {
            let mut bytes = memory.recorded_bytes(region, 0, size).to_vec();
            moved.to_own.apply(&mut bytes);
            for offset in numbers {
                let Some(word) = bytes[offset as usize..].first_chunk_mut() else { continue };
                let function = moved.to_own.functions.get(&u64::from_le_bytes(*word));
                *word = function.map_or(*word, |function| function.to_le_bytes());
            }
            device.write(own, &bytes)?;
        }
        moved.arguments = moved.mapped(arguments);
        Ok(moved)
    }

    /// Adds the functions that a variable's initial value refers to. Returns the offsets of those that have numbers.
    fn add_functions(
        &mut self,
        memory: &ResidentMemory<'_>,
        module: DeviceModule,
        (region, name): (&SnapshotRegion, &str),
        place: Option<(u64, u64)>,
    ) -> Result<Vec<u64>, DeviceError> {
        let (device, mut numbers) = (memory.device(), Vec::new());
        let offsets = region.function_words();
        if offsets.is_empty() {
            return Ok(numbers);
        }
        let Some((place, size)) = device.variable(module, &initial_copy(name))?.or(place) else {
            self.missing.push(name.to_owned());
            return Ok(numbers);
        };
        let mut loaded = vec![0; size.min(region.size) as usize];
        device.read(place, &mut loaded)?;
        for offset in offsets {
            let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let own = word(loaded.get(offset as usize..).unwrap_or_default());
            let recorded = word(memory.recorded_bytes(region, offset, WORD as u64));
            // Null, and the offsets in tables of virtual functions, are the same in all modules.
            if own == 0 || recorded == 0 || own == recorded {
                continue;
            }
            if self.to_own.functions.insert(recorded, own).is_some_and(|known| known != own) {
                return Err(DeviceError::Refused(format!(
                    "the application has changed a pointer to a function in {name} or another variable, so the \
                     function at the recorded address {recorded:#x} is unknown"
                )));
            }
            self.to_recorded.functions.insert(own, recorded);
            if own.min(recorded) < LOWEST {
                numbers.push(offset);
            }
        }
        Ok(numbers)
    }

    /// The recorded arguments, as this module takes them.
    pub fn arguments(&self) -> &[Vec<u8>] {
        &self.arguments
    }

    /// Other arguments, or the recorded ones for `None`.
    pub fn arguments_or(&self, others: Option<&[Vec<u8>]>) -> Cow<'_, [Vec<u8>]> {
        others.map_or(Cow::Borrowed(&self.arguments), |others| Cow::Owned(self.mapped(others)))
    }

    fn mapped(&self, arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut mapped = arguments.to_vec();
        for argument in &mut mapped {
            self.to_own.apply(argument);
        }
        mapped
    }

    /// Prepares memory for a launch. Returns how many words of recorded memory hold another address now.
    pub fn bring(&self, device: &dyn Device) -> Result<u64, DeviceError> {
        let replaced = self.replace(device, &self.to_own)?;
        self.copied.iter().try_for_each(|(recorded, own, size)| device.copy(*own, *recorded, *size))?;
        Ok(replaced)
    }

    /// Takes variables and recorded addresses back after a launch.
    pub fn take_back(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.copied.iter().try_for_each(|(recorded, own, size)| device.copy(*recorded, *own, *size))?;
        self.replace(device, &self.to_recorded).map(drop)
    }

    fn replace(&self, device: &dyn Device, addresses: &Addresses) -> Result<u64, DeviceError> {
        let (mut bytes, mut all) = (Vec::new(), 0);
        for (address, size) in &self.holders {
            bytes.resize(*size as usize, 0);
            device.read(*address, &mut bytes)?;
            let replaced = addresses.apply(&mut bytes);
            if replaced > 0 {
                device.write(*address, &bytes)?;
            }
            all += replaced;
        }
        for address in &self.numbers {
            let mut word = [0; WORD];
            device.read(*address, &mut word)?;
            if let Some(other) = addresses.functions.get(&u64::from_le_bytes(word)).filter(|other| **other < LOWEST) {
                device.write(*address, &other.to_le_bytes())?;
                all += 1;
            }
        }
        Ok(all)
    }
}
