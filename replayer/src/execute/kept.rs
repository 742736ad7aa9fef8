//! Looks for what code keeps from one launch to the next in variables of its own.
//!
//! Recorded variables are compared and restored like all recorded memory. Code that is not the recorded kernel's may
//! bring others. If a launch changes them, a later one may answer from them: with results of an earlier launch, or
//! right so many times and wrong afterwards. Code that leaves them as it found them keeps nothing.
//!
//! [`Habits`] are what makes launches differ besides: clocks, and the device's heap.

use std::collections::BTreeSet;

use mneme_device::{Device, DeviceError, DeviceModule};
use mneme_image::{code_object, cpu_object, cubin};

use crate::recording::snapshot::Snapshot;

/// Larger variables cost too much to be read after each of many runs, bytes.
const MOST: u64 = 16 << 20;

/// The variables of a module that the recording lacks.
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
    /// Those of a module that was just loaded from `image`.
    pub fn of(
        device: &dyn Device,
        snapshot: &Snapshot,
        module: DeviceModule,
        image: &[u8],
    ) -> Result<Self, DeviceError> {
        let mut variables = Vec::new();
        for name in names(image) {
            let Some((address, size)) = device.variable(module, &name)? else { continue };
            let recorded = snapshot.layout.regions.iter().find(|region| region.variable.as_ref() == Some(&name));
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

    /// Looks at them after a run, unless that takes long.
    pub fn glance(&mut self, device: &dyn Device) -> Result<(), DeviceError> {
        let bytes: u64 = self.variables.iter().map(|variable| variable.loaded.len() as u64).sum();
        if bytes > MOST { Ok(()) } else { self.look(device) }
    }

    /// Looks at them.
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

    /// Names of those that a launch has changed.
    pub fn changed(self) -> Vec<String> {
        self.changed.into_iter().collect()
    }
}

/// The function that reads the clock in CPU code objects.
const CLOCK: &str = "__mneme_cpu_clock";
/// The function that allocates memory in cubins.
const HEAP: &str = "malloc";

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
        // The CPU device has no heap.
        Self { reads_clock: cpu_object::calls(image, entry, CLOCK), uses_heap: false }
    }
}

/// The variables of a code object that its code may write to.
fn names(image: &[u8]) -> Vec<String> {
    if let Some(cubin) = cubin::parse(image) {
        return cubin.variables.into_iter().filter(|it| !it.constant).map(|variable| variable.name).collect();
    }
    if let Some(object) = code_object::parse(image) {
        return object.variables.into_iter().filter(|it| !it.constant).map(|variable| variable.name).collect();
    }
    cpu_object::writable(image)
}
