//! The replayer's clock over the profiling library, in all versions and with all faults.

use std::time::{Duration, Instant};

use mneme_device::ProfilerError::{self, Call, NewVersion, OldVersion, RecordLayout, Records, ShortRecord};
use mneme_device::gpu::{Gpu, Profiler};
use mneme_device::rocprofiler::Rocprofiler;
use mneme_device::{Device, DeviceFunction, hip};
use mneme_model::device::Timer;
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

use crate::code;
use crate::library::Hip;

type IsKind = fn(&ProfilerError) -> bool;

/// The times of a series, or the expected error.
type Expected = Result<&'static [u64], IsKind>;

/// The library's settings, and the results of two series. One series has three launches, the other two. A launch
/// between them belongs to neither.
pub const CASES: &[(&str, [Expected; 2])] = &[
    ("version=400", [Ok(&[10_001, 10_002, 10_003]), Ok(&[10_004, 10_005])]),
    ("version=600", [Ok(&[10_001, 10_002, 10_003]), Ok(&[10_004, 10_005])]),
    ("version=10000", [Ok(&[10_001, 10_002, 10_003]), Ok(&[10_004, 10_005])]),
    ("version=10305", [Ok(&[10_001, 10_002, 10_003]), Ok(&[10_004, 10_005])]),
    ("size=400", [Ok(&[10_001, 10_002, 10_003]), Ok(&[10_004, 10_005])]),
    ("lose=2", [Err(|error| matches!(error, Records { kernels: 2, launches: 3, .. })), Ok(&[10_004, 10_005])]),
    (
        "double=5",
        [Ok(&[10_001, 10_002, 10_003]), Err(|error| matches!(error, Records { kernels: 3, launches: 2, .. }))],
    ),
    ("lose_from=1", [Err(|error| matches!(error, Records { kernels: 0, launches: 3, .. })); 2]),
    ("size=100", [Err(|error| matches!(error, ShortRecord { found: 100, .. })); 2]),
    ("moved=1", [Err(|error| matches!(error, RecordLayout(_))); 2]),
];

/// Libraries that the replayer does not use, and why.
pub const UNUSED: &[(&str, IsKind)] = &[
    ("version=20000", |error| matches!(error, NewVersion { found: (2, 0, 0), last: 1 })),
    ("version=500,taken=1", |error| matches!(error, Call { function: "rocprofiler_force_configure", code: 15, .. })),
    ("taken=1", |error| matches!(error, Call { function: "rocprofiler_force_configure", code: 16, .. })),
    ("version=300", |error| matches!(error, OldVersion { found: (0, 3, 0), .. })),
];

struct Kernel<'a> {
    device: &'a Gpu,
    function: DeviceFunction,
    arguments: [Vec<u8>; 3],
}

impl Kernel<'_> {
    fn run(&self, count: usize) {
        let (grid, block) = (Dim3::new(2, 1, 1), Dim3::new(64, 1, 1));
        let launch = Launch { grid, block, shared_mem: 0, attributes: LaunchAttributes::default() };
        for _ in 0..count {
            self.device.run(self.function, &launch, &self.arguments).unwrap();
        }
    }

    fn series(&self, count: usize, expected: Expected) {
        self.device.begin_series();
        self.run(count);
        match (self.device.end_series(), expected) {
            (Ok(Some((times, timer))), Ok(expected)) => {
                assert_eq!((times.as_slice(), timer), (expected, Timer::Rocprofiler))
            }
            (Err(error), Err(is_expected)) => assert!(is_expected(&error), "{error}"),
            (told, expected) => panic!("{told:?} in place of {:?}", expected.ok()),
        }
    }
}

/// Runs two series with this process's library.
pub fn series(case: usize) {
    let library = Hip::path();
    let profiler = Rocprofiler::start(&library).unwrap();
    let mut device = hip::open(&library, 0).unwrap();
    device.time_with(Profiler::Rocprofiler(Box::new(profiler)));
    assert_eq!(device.description().timer, Timer::Rocprofiler);
    let out = device.allocate(400).unwrap();
    let module = device.load(&code::gfx90a()).unwrap();
    let address = out.to_le_bytes().to_vec();
    let arguments = [address.clone(), address, 0_u32.to_le_bytes().to_vec()];
    let kernel = Kernel { device: &device, function: device.function(module, "add_step").unwrap(), arguments };
    let (_, [first, second]) = CASES[case];
    kernel.series(3, first);
    kernel.run(1);
    let start = Instant::now();
    kernel.series(2, second);
    assert!(start.elapsed() < Duration::from_secs(1), "what never comes is waited for once");
    // An abandoned series ends with the next one, or with the device.
    kernel.device.begin_series();
    kernel.run(1);
    kernel.device.begin_series();
    device.unload(module).unwrap();
    device.free(out).unwrap();
}

/// Tests a library that the replayer does not use.
pub fn refused(case: usize) {
    let error = Rocprofiler::start(&Hip::path()).err().expect("it is not used");
    assert!(matches!(&error, ProfilerError::Rocprofiler(cause) if UNUSED[case].1(cause)), "{error}");
    // Without the library, the device still works.
    let device = hip::open(&Hip::path(), 0).unwrap();
    device.begin_series();
    assert_eq!((device.end_series(), device.description().timer), (Ok(None), Timer::Events));
}
