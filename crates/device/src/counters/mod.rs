//! Hardware counters of NVIDIA GPUs, from CUPTI's range profiler if it is installed.
//!
//! A launch is a range. The device counts only a few things at a time, so the range is repeated once for each pass,
//! with memory restored in between. CUPTI calls this user range and user replay.

mod functions;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use mneme_abi::cuda::driver::pointers;
use mneme_abi::cuda::profiler_structures as p;

use self::functions::{Failed, Functions};
use self::schedule::{Chip, Image, Schedule};
use super::gpu::VendorLibrary;
use crate::error::ProfilerError;

/// Passes that CUPTI may request beyond those announced; more count as a fault.
const MORE_PASSES: usize = 8;

/// A launch that is repeated once for each pass.
pub trait CountedLaunch {
    type Error;

    /// Prepares a pass; not counted.
    fn prepare(&mut self) -> Result<(), Self::Error>;

    /// Launches, and waits for the end.
    fn launch(&mut self) -> Result<(), Self::Error>;

    /// Restores memory; not counted.
    fn restore(&mut self) -> Result<(), Self::Error>;
}

/// A device's counters, in its context.
pub struct Counters {
    chip: Chip,
    context: usize,
    /// The previous counters.
    schedule: Option<Schedule>,
}

impl Counters {
    /// Loads CUPTI for the current context of this driver library. `device` is the driver's number of its device, and
    /// `toolkits` are roots of CUDA installations.
    ///
    /// # Errors
    /// Counting is impossible; the error tells the reason.
    pub fn open(toolkits: &[PathBuf], driver: &Path, device: i32) -> Result<Self, ProfilerError> {
        let library = VendorLibrary::load(driver)?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the type is the driver's own for this function; the place is valid for the answer.
        let status = unsafe {
            let current: pointers::cuCtxGetCurrent = library.function("cuCtxGetCurrent")?;
            current(&mut context)
        };
        if context.is_null() {
            return Err(ProfilerError::NoContext(status.0));
        }
        Self::of_context(toolkits, context as usize, usize::try_from(device).unwrap_or(0))
    }

    fn of_context(toolkits: &[PathBuf], context: usize, device: usize) -> Result<Self, ProfilerError> {
        let functions = Rc::new(Functions::load(toolkits)?);
        let chip = chip(&functions, context, device).map_err(|failed| functions.explain(failed))?;
        Ok(Self { chip, context, schedule: None })
    }

    /// Counts a launch.
    ///
    /// The value is an error if counting failed.
    ///
    /// # Errors
    /// The launch failed.
    /// Those of the launch.
    pub fn count<L: CountedLaunch>(
        &mut self,
        wanted: &[String],
        launch: &mut L,
    ) -> Result<Result<BTreeMap<String, f64>, ProfilerError>, L::Error> {
        let schedule = match self.schedule.take().filter(|schedule| schedule.wanted == wanted) {
            Some(schedule) => schedule,
            None => match self.chip.schedule(wanted) {
                Ok(schedule) => schedule,
                Err(why) => return Ok(Err(why)),
            },
        };
        let schedule = self.schedule.insert(schedule);
        let functions = &self.chip.functions;
        let mut profiler = match RangeProfiler::enable(functions, self.context, schedule) {
            Ok(profiler) => profiler,
            Err(failed) => return Ok(Err(functions.explain(failed))),
        };
        for pass in 0.. {
            if pass >= schedule.passes + MORE_PASSES {
                return Ok(Err(ProfilerError::Passes { announced: schedule.passes, made: pass }));
            }
            launch.prepare()?;
            let done = profiler.pass(|| launch.launch())?;
            launch.restore()?;
            match done {
                Ok(true) => break,
                Ok(false) => {}
                Err(failed) => return Ok(Err(functions.explain(failed))),
            }
        }
        let values = profiler.values(schedule);
        drop(profiler);
        let values = match values {
            Ok(values) => values,
            Err(error) => return Ok(Err(error)),
        };
        let named: BTreeMap<String, f64> = wanted.iter().cloned().zip(values).collect();
        Ok(match named.iter().find(|(_, value)| !value.is_finite()) {
            Some((name, value)) => Err(ProfilerError::NoNumber { name: name.clone(), value: value.to_string() }),
            None => Ok(named),
        })
    }
}

/// The device of a context.
fn chip(functions: &Rc<Functions>, context: usize, device: usize) -> Result<Chip, Failed> {
    let mut name = p::DeviceChipName { device, ..p::DeviceChipName::default() };
    let mut size = p::CounterAvailability { context, ..p::CounterAvailability::default() };
    // SAFETY: the context is the driver's and current; the image has the stated size.
    unsafe {
        functions.initialize.call(&mut p::ProfilerInitialize::default())?;
        functions.chip_name.call(&mut name)?;
        functions.availability.call(&mut size)?;
        let mut availability = Image::of_size(size.image_size);
        let (image_size, image) = (availability.size(), availability.address());
        let mut parameters = p::CounterAvailability { context, image_size, image, ..p::CounterAvailability::default() };
        functions.availability.call(&mut parameters)?;
        // A text owned by CUPTI.
        let name = CStr::from_ptr(name.name as *const c_char).to_owned();
        Ok(Chip { functions: functions.clone(), name, availability })
    }
}

/// The profiler, active on a context until this is dropped; meanwhile launches are slower.
struct RangeProfiler<'a> {
    functions: &'a Functions,
    profiler: usize,
    /// The buffer for CUPTI's counts.
    data: Image,
}

impl<'a> RangeProfiler<'a> {
    fn enable(functions: &'a Functions, context: usize, schedule: &mut Schedule) -> Result<Self, Failed> {
        let mut enable = p::RangeEnable { context, ..p::RangeEnable::default() };
        // SAFETY: the context is the driver's.
        unsafe { functions.enable.call(&mut enable)? };
        let mut enabled = Self { functions, profiler: enable.profiler, data: Image::default() };
        enabled.configure(schedule)?;
        Ok(enabled)
    }

    /// Configures one range without nested ranges.
    fn configure(&mut self, schedule: &mut Schedule) -> Result<(), Failed> {
        let profiler = self.profiler;
        let mut size = p::RangeCounterDataSize {
            profiler,
            names: schedule.names.address(),
            count: schedule.names.count(),
            ranges: 1,
            nodes: 1,
            ..p::RangeCounterDataSize::default()
        };
        // SAFETY: the object is CUPTI's, the names outlive the calls, and both images have the stated sizes and live as
        // long as the profiler is enabled.
        unsafe {
            self.functions.counter_data_size.call(&mut size)?;
            self.data = Image::of_size(size.image_size);
            let (image_size, image) = (self.data.size(), self.data.address());
            self.functions.counter_data_initialize.call(&mut p::RangeCounterDataInitialize {
                profiler,
                image_size,
                image,
                ..p::RangeCounterDataInitialize::default()
            })?;
            self.functions.set_config.call(&mut p::RangeSetConfig {
                profiler,
                config_size: schedule.config.size(),
                config: schedule.config.address(),
                image_size,
                image,
                range: p::USER_RANGE,
                replay: p::USER_REPLAY,
                ranges: 1,
                levels: 1,
                least_level: 1,
                pass: 0,
                level: 1,
                ..p::RangeSetConfig::default()
            })
        }
    }

    /// Counts one pass; returns whether it was the last.
    fn pass<E>(&mut self, launch: impl FnOnce() -> Result<(), E>) -> Result<Result<bool, Failed>, E> {
        let profiler = self.profiler;
        let mut push = p::RangePush { profiler, name: c"launch".as_ptr() as usize, ..p::RangePush::default() };
        // SAFETY: the object is CUPTI's; the name lasts.
        let begun = unsafe {
            let start = self.functions.start.call(&mut p::RangeStart { profiler, ..p::RangeStart::default() });
            start.and_then(|()| self.functions.push.call(&mut push))
        };
        if let Err(failed) = begun {
            return Ok(Err(failed));
        }
        launch()?;
        let mut stop = p::RangeStop { profiler, ..p::RangeStop::default() };
        // SAFETY: as above.
        let ended = unsafe {
            let pop = self.functions.pop.call(&mut p::RangePop { profiler, ..p::RangePop::default() });
            pop.and_then(|()| self.functions.stop.call(&mut stop))
        };
        Ok(ended.map(|()| stop.is_last != 0))
    }

    /// The values counted in all passes.
    fn values(&mut self, schedule: &Schedule) -> Result<Vec<f64>, ProfilerError> {
        let mut decode = p::RangeDecode { profiler: self.profiler, ..p::RangeDecode::default() };
        let mut info = p::RangeCounterDataInfo {
            image: self.data.address(),
            image_size: self.data.size(),
            ..p::RangeCounterDataInfo::default()
        };
        // SAFETY: the object is CUPTI's, and the image is the one that it was given.
        let decoded = unsafe {
            let decoded = self.functions.decode.call(&mut decode);
            decoded.and_then(|()| self.functions.counter_data_info.call(&mut info))
        };
        decoded.map_err(|failed| self.functions.explain(failed))?;
        if decode.dropped > 0 || info.ranges != 1 {
            return Err(ProfilerError::Ranges { ranges: info.ranges, dropped: decode.dropped });
        }
        schedule.values(&mut self.data).map_err(|failed| self.functions.explain(failed))
    }
}

impl Drop for RangeProfiler<'_> {
    fn drop(&mut self) {
        let mut parameters = p::RangeDisable { profiler: self.profiler, ..p::RangeDisable::default() };
        // SAFETY: the object is CUPTI's, and not used any more.
        let _ = unsafe { self.functions.disable.call(&mut parameters) };
    }
}
