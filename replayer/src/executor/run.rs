//! One run request: load, launch again and again from restored memory, verify the first and the last launch.

use mneme_core::device::{Device, DeviceError, Module};
use mneme_core::launch::Launch;
use mneme_core::result::{Mismatch, Status};

use super::memory::Memory;
use super::message::{Done, Run};

/// Dynamic shared memory that a launch may ask for without being allowed to, bytes (CUDA Programming Guide, "Shared Memory").
const DEFAULT_SHARED_LIMIT: u32 = 48 * 1024;

/// Runs a code object. Memory is as recorded before the launch when this is called, and again when it returns, unless the
/// answer says that the context is broken.
pub fn run(device: &dyn Device, memory: &mut Memory<'_>, parameters: &[u8], order: &Run, image: &[u8]) -> Done {
    let mut done = Done { status: Status::RuntimeError, registers: -1, local: -1, constant: -1, ..Done::default() };
    let module = match device.load(image) {
        Ok(module) => module,
        Err(error) => {
            done.error = format!("the device does not take the code object: {error}");
            return done;
        }
    };
    let launched = launches(device, memory, parameters, order, module, &mut done);
    if let Err(error) = launched {
        (done.status, done.error) = if was_refused(&error) {
            (Status::InvalidLaunch, format!("the launch was refused: {error}"))
        } else {
            (Status::RuntimeError, format!("the kernel failed: {error}"))
        };
    }
    if !done.broken && device.unload(module).is_err() {
        done.broken = true;
    }
    done
}

fn launches(
    device: &dyn Device,
    memory: &mut Memory<'_>,
    parameters: &[u8],
    order: &Run,
    module: Module,
    done: &mut Done,
) -> Result<(), DeviceError> {
    let function = device.function(module, &order.entry)?;
    let used = device.function_use(function);
    (done.registers, done.local, done.constant) = (used.registers, used.local, used.constant);
    memory.fill_constants(module)?;
    let limit = DEFAULT_SHARED_LIMIT.saturating_sub(u32::try_from(used.static_shared).unwrap_or(0));
    if order.shared_mem > limit {
        device.allow_dynamic_shared(function, order.shared_mem)?;
    }
    let launch = Launch { grid: order.grid, block: order.block, shared_mem: order.shared_mem, attributes: order.attributes };
    let runs = order.warmup.saturating_add(order.iterations).max(1);
    for index in 0..runs {
        match device.run(function, &launch, parameters) {
            Ok(time) => done.times.push(time),
            Err(error) => {
                // A launch that was refused changed nothing; one that failed has mostly taken the context with it, which shows in
                // that memory cannot be put back.
                done.broken = done.executed || (!was_refused(&error) && memory.restore_all().is_err());
                done.executed |= !was_refused(&error);
                return Err(error);
            }
        }
        done.executed = true;
        let verified_here = index == 0 || index + 1 == runs;
        if verified_here && let Some(mismatch) = check(memory, done)? {
            done.status = Status::FailedVerification;
            done.error = sentence(&mismatch);
            done.mismatch = Some(mismatch);
            return repaired(memory.restore_all(), done);
        }
        repaired(memory.restore(), done)?;
    }
    done.status = Status::Verified;
    Ok(())
}

/// Whether the driver said no before anything ran.
fn was_refused(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Call { function, .. } if function.starts_with("cuLaunch") || function.starts_with("cuFunc"))
}

fn check(memory: &mut Memory<'_>, done: &mut Done) -> Result<Option<Mismatch>, DeviceError> {
    repaired(memory.verify(), done)
}

/// Notes that memory could not be read or put back: the context is lost.
fn repaired<T>(result: Result<T, DeviceError>, done: &mut Done) -> Result<T, DeviceError> {
    done.broken |= result.is_err();
    result
}

fn sentence(mismatch: &Mismatch) -> String {
    let place = match mismatch.region.as_str() {
        "allocation" => format!("the allocation at {}", mismatch.address),
        name => format!("the variable {name}"),
    };
    let error = mismatch.largest_error.map_or(String::new(), |error| format!(", the largest error is {error:e}"));
    format!(
        "memory differs from the recording: first at byte {} of {place}, recorded {} and replayed {}; {} elements of {} bytes differ{error}",
        mismatch.offset, mismatch.recorded, mismatch.replayed, mismatch.differing, mismatch.element_size
    )
}
