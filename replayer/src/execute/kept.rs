//! Finds state that code keeps from one launch to the next in its own variables.
//!
//! Recorded variables are compared and restored like all recorded memory. Code other than the recorded kernel may add
//! variables. If a launch changes them, a later launch may depend on them: it may return results of an earlier launch,
//! or go wrong after a number of right ones. Code that leaves its variables unchanged keeps no state.
//!
//! [`Habits`] are other sources of differences between launches: clocks, and the device's heap.

use std::collections::BTreeSet;

use mneme_device::{Device, DeviceError, DeviceModule};
use mneme_image::ir_section::HEAP_COUNT;
use mneme_image::{code_object, cpu_object, cubin};

use super::message::RunRequest;
use crate::recording::snapshot::{Snapshot, SnapshotRegion};

/// Larger variables, in bytes, take too long to read after each of many runs.
const MOST: u64 = 16 << 20;

/// The variables of a module that are missing from the recording.
#[derive(Debug, Default)]
pub struct OwnVariables {
    variables: Vec<Variable>,
    changed: BTreeSet<String>,
}

#[derive(Debug)]
struct Variable {
    name: String,
    address: u64,
    /// Its contents when the module is loaded.
    loaded: Vec<u8>,
}

impl OwnVariables {
    /// The extra variables of a module that was just loaded from `image`.
    pub fn of(
        device: &dyn Device,
        snapshot: &Snapshot,
        module: DeviceModule,
        image: &[u8],
    ) -> Result<Self, DeviceError> {
        let mut variables = Vec::new();
        for name in names(image) {
            let Some((address, size)) = device.variable(module, &name)? else { continue };
            // Recorded constants aren't restored, so code may keep something in a variable of that name.
            let is_recorded = |region: &&SnapshotRegion| region.variable.as_ref() == Some(&name) && !region.constant;
            let recorded = snapshot.layout.regions.iter().find(is_recorded);
            // A variable may be larger than the recorded one of its name.
            let known = recorded.map_or(0, |region| region.size).min(size);
            if known == size {
                continue;
            }
            let mut loaded = vec![0; (size - known) as usize];
            device.read(address + known, &mut loaded)?;
            variables.push(Variable { name, address: address + known, loaded });
        }
        Ok(Self { variables, changed: BTreeSet::new() })
    }

    /// Checks the variables after a run, unless that takes long.
    pub fn glance(&mut self, device: &dyn Device) -> Result<(), DeviceError> {
        let bytes: u64 = self.variables.iter().map(|variable| variable.loaded.len() as u64).sum();
        if bytes > MOST { Ok(()) } else { self.look(device) }
    }

    /// Checks the variables.
    pub fn look(&mut self, device: &dyn Device) -> Result<(), DeviceError> {
        for variable in &self.variables {
            let mut now = vec![0; variable.loaded.len()];
            device.read(variable.address, &mut now)?;
            if now != variable.loaded {
                self.changed.insert(variable.name.clone());
            }
        }
        Ok(())
    }

    /// Names of the variables that a launch changed.
    pub fn changed(self) -> Vec<String> {
        self.changed.into_iter().collect()
    }
}

/// The function that reads the clock in CPU code objects.
const CLOCK: &str = "__mneme_cpu_clock";
/// The functions that allocate memory in cubins and in CPU code objects. AMD's code does not show it.
const HEAP: &str = "malloc";
const CPU_HEAP: &str = "__mneme_cpu_malloc";

/// Device services by which a kernel's code can behave differently in each launch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    pub reads_clock: bool,
    pub uses_heap: bool,
}

impl Habits {
    pub fn of(image: &[u8], entry: &str) -> Self {
        if let Some(cubin) = cubin::parse(image) {
            let kernel = cubin.kernels.iter().find(|kernel| kernel.name == entry);
            return kernel.map_or_else(Self::default, |kernel| Self {
                reads_clock: cubin.features(kernel).clocks,
                uses_heap: cubin.undefined(kernel).iter().any(|function| function == HEAP),
            });
        }
        let calls = |function| cpu_object::calls(image, entry, function);
        Self { reads_clock: calls(CLOCK), uses_heap: calls(CPU_HEAP) }
    }
}

impl Habits {
    /// Those of the code under test and of the application's own code.
    pub fn of_both(order: &RunRequest, blob: &[u8]) -> [Self; 2] {
        let own = order.oracle.as_ref().map_or_else(Self::default, |own| Self::of(own.code(blob), &own.entry));
        [Self::of(order.code(blob), &order.entry), own]
    }
}

/// Whether code counts the allocations that it leaves on the heap, in a variable like others.
pub fn counts_allocations(image: &[u8]) -> bool {
    names(image).iter().any(|name| name == HEAP_COUNT)
}

/// The variables of a code object that its code may write.
fn names(image: &[u8]) -> Vec<String> {
    if let Some(cubin) = cubin::parse(image) {
        return cubin.variables.into_iter().filter(|it| !it.constant).map(|variable| variable.name).collect();
    }
    if let Some(object) = code_object::parse(image) {
        return object.variables.into_iter().filter(|it| !it.constant).map(|variable| variable.name).collect();
    }
    cpu_object::writable(image)
}
