//! The host half: the available hardware counters, and the passes to count them in.
//!
//! It needs CUPTI and the name of a chip, but not a GPU.

use std::ffi::{CStr, CString, c_char};
use std::rc::Rc;

use mneme_abi::cuda::profiler_structures as p;

use super::functions::{Failed, Functions};
use crate::error::ProfilerError;

/// The maximum number of names that a message suggests.
const SUGGESTED: usize = 12;
/// Kinds of counters, with the suffixes of their names.
const KINDS: [(u32, &str); 3] = [
    (p::METRIC_COUNTER, ".sum, .avg, .min or .max"),
    (p::METRIC_RATIO, ".ratio, .pct or .max_rate"),
    (p::METRIC_THROUGHPUT, ".avg.pct_of_peak_sustained_elapsed"),
];

/// Bytes for CUPTI, aligned to 8.
#[derive(Clone, Debug, Default)]
pub struct Image {
    words: Vec<u64>,
    bytes: usize,
}

impl Image {
    pub fn of_size(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)], bytes }
    }

    pub fn size(&self) -> usize {
        self.bytes
    }

    /// The buffer's address, or 0 if it is empty; CUPTI writes to it as requested.
    pub fn address(&mut self) -> usize {
        if self.bytes == 0 { 0 } else { self.words.as_mut_ptr() as usize }
    }
}

/// Names as a C array that lives as long as this object.
pub struct Names {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Names {
    fn new(names: &[String]) -> Self {
        // Counter names do not contain zero bytes, so a name with one is unknown.
        let texts: Vec<CString> =
            names.iter().map(|name| CString::new(name.replace('\0', "?")).unwrap_or_default()).collect();
        let pointers = texts.iter().map(|text| text.as_ptr()).collect();
        Self { _texts: texts, pointers }
    }

    pub fn address(&self) -> usize {
        self.pointers.as_ptr() as usize
    }

    pub fn count(&self) -> usize {
        self.pointers.len()
    }
}

/// A chip, as CUPTI describes it.
pub struct Chip {
    pub functions: Rc<Functions>,
    pub name: CString,
    /// Which counters this device has; empty for all counters of the chip.
    pub availability: Image,
}

/// Counters to count together.
pub struct Schedule {
    functions: Rc<Functions>,
    host: usize,
    pub wanted: Vec<String>,
    pub names: Names,
    /// The device's configuration.
    pub config: Image,
    pub passes: usize,
}

impl Chip {
    /// Schedules counters.
    ///
    /// # Errors
    /// A counter is unknown, or CUPTI fails.
    pub fn schedule(&mut self, wanted: &[String]) -> Result<Schedule, ProfilerError> {
        self.scheduled(wanted).map_err(|failed| {
            let is_unknown = failed.function == self.functions.add_metrics.name
                && matches!(failed.code, p::INVALID_PARAMETER | p::INVALID_METRIC_NAME);
            let mut each = wanted.iter().filter(|_| is_unknown);
            match each.find(|name| self.scheduled(std::slice::from_ref(*name)).is_err()) {
                Some(name) => self.unknown(name),
                None => self.functions.explain(failed),
            }
        })
    }

    fn open(&mut self, wanted: &[String]) -> Result<Schedule, Failed> {
        let mut parameters = p::HostInitialize {
            kind: p::TYPE_RANGE_PROFILER,
            chip: self.name.as_ptr() as usize,
            availability: self.availability.address(),
            ..p::HostInitialize::default()
        };
        // SAFETY: the name is terminated, the image is CUPTI's own, and both outlive the call.
        unsafe { self.functions.host_initialize.call(&mut parameters)? };
        Ok(Schedule {
            functions: self.functions.clone(),
            host: parameters.host,
            wanted: wanted.to_vec(),
            names: Names::new(wanted),
            config: Image::default(),
            passes: 0,
        })
    }

    fn scheduled(&mut self, wanted: &[String]) -> Result<Schedule, Failed> {
        let mut schedule = self.open(wanted)?;
        let functions = &self.functions;
        let (host, names, count) = (schedule.host, schedule.names.address(), schedule.names.count());
        // SAFETY: the object is CUPTI's, the names outlive the calls, and the image has the stated size.
        unsafe {
            functions.add_metrics.call(&mut p::HostAddMetrics {
                host,
                names,
                count,
                ..p::HostAddMetrics::default()
            })?;
            let mut size = p::HostConfigImageSize { host, ..p::HostConfigImageSize::default() };
            functions.config_image_size.call(&mut size)?;
            schedule.config = Image::of_size(size.image_size);
            let (image_size, image) = (schedule.config.size(), schedule.config.address());
            let mut parameters = p::HostConfigImage { host, image_size, image, ..p::HostConfigImage::default() };
            functions.config_image.call(&mut parameters)?;
            let mut passes = p::HostPasses { image_size, image, ..p::HostPasses::default() };
            functions.passes.call(&mut passes)?;
            schedule.passes = passes.passes;
        }
        Ok(schedule)
    }

    /// The error for an unknown counter, with similar known names.
    fn unknown(&mut self, name: &str) -> ProfilerError {
        let chip = self.name.to_string_lossy().into_owned();
        let base = name.split('.').next().unwrap_or(name);
        let unit = base.split("__").next().unwrap_or(base);
        let mut alike = Vec::new();
        for (kind, suffixes) in KINDS {
            let known = self.known(kind).unwrap_or_default();
            if known.iter().any(|known| known == base) {
                return ProfilerError::CounterSuffix { chip, name: name.into(), base: base.into(), suffixes };
            }
            alike.extend(known.into_iter().filter(|known| known.split("__").next() == Some(unit)));
        }
        alike.sort_by_key(|known| std::cmp::Reverse(common(known, base)));
        alike.truncate(SUGGESTED);
        ProfilerError::NoCounter { chip, name: name.into(), unit: unit.into(), alike }
    }

    /// The names of all counters of a kind.
    fn known(&mut self, kind: u32) -> Result<Vec<String>, Failed> {
        let schedule = self.open(&[])?;
        let mut parameters = p::HostBaseMetrics { host: schedule.host, kind, ..p::HostBaseMetrics::default() };
        // SAFETY: the object is CUPTI's; it returns texts that live as long as it does.
        unsafe {
            self.functions.base_metrics.call(&mut parameters)?;
            let names = parameters.names as *const *const c_char;
            let name = |place| CStr::from_ptr(*names.add(place)).to_string_lossy().into_owned();
            Ok(if names.is_null() { Vec::new() } else { (0..parameters.count).map(name).collect() })
        }
    }
}

/// The length of the common prefix of two names.
fn common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

impl Schedule {
    /// The values of the counters in the first range of counter data.
    pub fn values(&self, data: &mut Image) -> Result<Vec<f64>, Failed> {
        let mut values = vec![f64::NAN; self.names.count()];
        let mut parameters = p::HostEvaluate {
            host: self.host,
            image: data.address(),
            image_size: data.size(),
            range: 0,
            names: self.names.address(),
            count: values.len(),
            values: values.as_mut_ptr() as usize,
            ..p::HostEvaluate::default()
        };
        // SAFETY: the object is CUPTI's, and the arrays of names and values have the stated lengths.
        unsafe { self.functions.evaluate.call(&mut parameters)? };
        Ok(values)
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        let mut parameters = p::HostDeinitialize { host: self.host, ..p::HostDeinitialize::default() };
        // SAFETY: the object is CUPTI's, and not used any more.
        let _ = unsafe { self.functions.host_deinitialize.call(&mut parameters) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cupti_failure::CuptiFailure;
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};

    /// CUPTI's host half sometimes fails if two threads use it at once.
    static ALONE: Mutex<()> = Mutex::new(());

    fn chip(name: &str) -> Chip {
        let toolkit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/cuda");
        let functions = Functions::load(&[toolkit]).unwrap_or_else(|error| panic!("{error}; run ./scripts/setup"));
        Chip { functions: functions.into(), name: CString::new(name).unwrap(), availability: Image::default() }
    }

    fn schedule(chip: &mut Chip, names: &[&str]) -> Result<(usize, usize), ProfilerError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        chip.schedule(&names).map(|schedule| (schedule.passes, schedule.config.size()))
    }

    #[test]
    fn counters_of_real_chips_are_scheduled() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted =
            ["dram__bytes.sum", "sm__warps_active.avg.pct_of_peak_sustained_active", "smsp__inst_executed.sum"];
        for name in ["GH100", "GA100", "GB100"] {
            let (passes, bytes) = schedule(&mut chip(name), &wanted).unwrap();
            assert!(passes >= 1 && bytes > 100, "{name}: {passes} passes, {bytes} bytes");
        }
    }

    #[test]
    fn what_is_no_counter_is_named() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chip_of = chip("GH100");
        let error = |chip: &mut Chip, name| schedule(chip, &["dram__bytes.sum", name]).unwrap_err();
        let bare = error(&mut chip_of, "dram__bytes");
        assert!(matches!(bare, ProfilerError::CounterSuffix { suffixes, .. } if suffixes.starts_with(".sum")));
        let mut alike = |name| match error(&mut chip_of, name) {
            ProfilerError::NoCounter { alike, .. } => alike,
            other => panic!("{other}"),
        };
        assert!(alike("dram__byte_read.sum")[0].starts_with("dram__bytes"));
        assert!(alike("made__up.sum").is_empty());
        let error = schedule(&mut chip("XX999"), &["dram__bytes.sum"]).unwrap_err();
        assert!(matches!(error, ProfilerError::Cupti(CuptiFailure { function: "cuptiProfilerHostInitialize", .. })));
    }
}
