//! Variables of code that was not made from IR: the driver puts them where it likes, and the recording has them elsewhere.
//!
//! They stay part of the recorded memory, which is verified and restored as ever; a launch works on the module's own copy,
//! which is brought there before and taken back after it.

use mneme_core::device::{Device, DeviceError, Module};

use crate::snapshot::Snapshot;

/// The variables of a module that lie elsewhere than recorded.
#[derive(Debug, Default)]
pub struct Moved(Vec<Variable>);

#[derive(Debug)]
struct Variable {
    recorded: u64,
    own: u64,
    /// Bytes.
    size: u64,
}

impl Moved {
    pub fn of(device: &dyn Device, snapshot: &Snapshot, module: Module) -> Result<Self, DeviceError> {
        let mut moved = Vec::new();
        for region in snapshot.layout.regions.iter().filter(|region| !region.constant) {
            if let Some(name) = &region.variable
                && let Some((own, size)) = device.variable(module, name)?
                && own != region.address
            {
                moved.push(Variable { recorded: region.address, own, size: size.min(region.size) });
            }
        }
        Ok(Self(moved))
    }

    /// Before a launch.
    pub fn bring(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.0.iter().try_for_each(|variable| device.copy(variable.own, variable.recorded, variable.size))
    }

    /// After it.
    pub fn take_back(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.0.iter().try_for_each(|variable| device.copy(variable.recorded, variable.own, variable.size))
    }
}
