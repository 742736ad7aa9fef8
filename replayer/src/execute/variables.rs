//! Variables that are away from their recorded addresses.
//!
//! The driver places the variables of code that was not made from IR. They remain part of the recorded memory, which is
//! verified and restored as usual. A launch uses the module's own copy: it is copied there before the launch and back
//! afterwards.
//!
//! Tables of functions (of a class's virtual functions) stay at their recorded addresses, because objects in memory
//! point to them, but the functions are in the module. During a launch the recorded place holds the module's table, and
//! otherwise the recorded one.

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
    /// The recorded contents of a table of functions.
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

    /// Copies the variables to the module before a launch.
    pub fn bring(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.0.iter().try_for_each(|variable| match variable.table {
            Some(_) => device.copy(variable.recorded, variable.own, variable.size),
            None => device.copy(variable.own, variable.recorded, variable.size),
        })
    }

    /// Copies them back after a launch.
    pub fn take_back(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.0.iter().try_for_each(|variable| match &variable.table {
            Some(recorded) => device.write(variable.recorded, recorded),
            None => device.copy(variable.recorded, variable.own, variable.size),
        })
    }
}
