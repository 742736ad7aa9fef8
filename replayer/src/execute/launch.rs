//! A single launch, and the state of the device after a failure.

use mneme_device::{Device, DeviceError, DeviceFunction};
use mneme_model::launch::Launch;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::message::RunOutcome;
use super::resident::ResidentMemory;

/// Launches once. Notes in `done` the time by events, or the effects of a failure.
pub fn launch_once(
    device: &dyn Device,
    function: DeviceFunction,
    launch: &Launch,
    arguments: &[Vec<u8>],
    memory: &mut ResidentMemory<'_>,
    done: &mut RunOutcome,
) -> Result<(), DeviceError> {
    repaired(memory.hide(true), done)?;
    let begin = memory.is_here().then(processor_time);
    let ended = device.run(function, launch, arguments);
    let work = begin.map(|begin| processor_time().saturating_sub(begin));
    // After a fault this may fail, like every other call.
    let shown = memory.hide(false);
    match ended.and_then(|time| shown.map(|()| time)) {
        Ok(time) => {
            done.times.push(time);
            done.work.push(work.unwrap_or(time));
            done.executed = true;
            Ok(())
        }
        Err(error) => {
            // A refused launch changed nothing. A failed launch has usually lost the context, and then restoring memory
            // fails.
            done.broken = done.executed || (!error.is_refused_launch() && memory.restore().is_err());
            done.executed |= !error.is_refused_launch();
            Err(error)
        }
    }
}

/// CPU time of this process, ns.
fn processor_time() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0 };
    let total = usage.user_time() + usage.system_time();
    u64::try_from(total.num_nanoseconds()).unwrap_or(0)
}

/// Notes that memory could not be read or restored, so the context is lost.
pub fn repaired<T>(result: Result<T, DeviceError>, done: &mut RunOutcome) -> Result<T, DeviceError> {
    done.broken |= result.is_err();
    result
}
