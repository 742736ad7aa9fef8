//! Variables that lie elsewhere than recorded.
//!
//! Those of code that was not made from IR are where the driver puts them. They stay part of the recorded memory, which
//! is verified and restored as ever; a launch works on the module's own copy, which is brought there before and taken
//! back after it.
//!
//! Tables of functions (of a class's virtual ones) are where they were recorded, because objects in memory point at
//! them, but the functions are the module's: during a launch the recorded place holds what the module's own table has,
//! and else what was recorded.

use mneme_device::{Device, DeviceError, DeviceModule};

use crate::recording::snapshot::Snapshot;

/// The variables of a module that lie elsewhere than recorded.
#[derive(Debug, Default)]
pub struct MovedVariables(Vec<Variable>);

#[derive(Debug)]
struct Variable {
    recorded: u64,
    own: u64,
    /// Bytes.
    size: u64,
    /// What a table of functions was recorded as.
    table: Option<Vec<u8>>,
}

impl MovedVariables {
    pub fn of(device: &dyn Device, snapshot: &Snapshot, module: DeviceModule) -> Result<Self, DeviceError> {
        let mut moved = Vec::new();
        for region in snapshot.layout.regions.iter().filter(|region| !region.constant) {
            if let Some(name) = &region.variable
                && let Some((own, size)) = device.variable(module, name)?
                && own != region.address
            {
                let size = size.min(region.size);
                let table = region.code.then(|| snapshot.before(region, 0, size).to_vec());
                moved.push(Variable { recorded: region.address, own, size, table });
            }
        }
        Ok(Self(moved))
    }

    /// Before a launch.
    pub fn bring(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.0.iter().try_for_each(|variable| match variable.table {
            Some(_) => device.copy(variable.recorded, variable.own, variable.size),
            None => device.copy(variable.own, variable.recorded, variable.size),
        })
    }

    /// After it.
    pub fn take_back(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.0.iter().try_for_each(|variable| match &variable.table {
            Some(recorded) => device.write(variable.recorded, recorded),
            None => device.copy(variable.recorded, variable.own, variable.size),
        })
    }
}
