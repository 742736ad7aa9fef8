//! An executor: a process with one device context that runs code objects.
//!
//! The snapshot is resident in its device memory.
//!
//! The executor contains the damage of a kernel: a fault loses the context, a hang or a crash loses the process, and
//! the supervisor starts the next executor. An executor never writes to the shared snapshot.

mod calibration;
mod counting;
pub mod dump;
mod energy;
pub mod executor;
pub mod files;
mod fma;
pub mod fresh;
mod input;
mod inspector;
pub mod kept;
mod kernels;
mod launch;
mod left;
pub mod message;
mod nvml;
mod observe;
mod pieces;
pub mod report;
mod resident;
mod run;
mod series;
mod speed;
mod survey;
mod variables;

use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use mneme_device::gpu::Gpu;
use mneme_device::{Device, DeviceError, Interface};
use mneme_model::architecture::Processor;
use mneme_model::device::Description;
use mneme_sandbox::confinement::{self, AllowedResources};
use mneme_sandbox::frame;

use self::message::{ExecutorReport, ExecutorRequest, StartError};
use self::resident::ResidentMemory;
use self::run::Runner;
use crate::context::timing::Timing;
use crate::recording::snapshot::Snapshot;
use crate::verify::tolerances::Bounds;

/// The input of a new executor.
pub struct ExecutorPlan<'a> {
    pub interface: Interface,
    /// The library that provides the interface.
    pub library: PathBuf,
    pub ordinal: i32,
    pub timing: Timing,
    /// Whether kernels run in this process.
    pub is_cpu: bool,
    /// The AMD processor of the recorded code, if any.
    pub processor: Option<Processor>,
    pub snapshot: &'a Snapshot,
    pub bounds: &'a Bounds,
    /// Why no search for bytes that the kernel only writes took place: one sentence.
    pub not_searched: &'a str,
    /// The arguments of every launch, in order.
    pub arguments: &'a [Vec<u8>],
    /// Folder for differing memory, if any.
    pub dump: Option<&'a Path>,
    /// Discard the output of the device and the kernel.
    pub quiet: bool,
}

impl ExecutorPlan<'_> {
    /// Whether PTX kernels and NVIDIA's other libraries work on the device.
    fn is_nvidia(&self) -> bool {
        self.interface == Interface::Cuda && !self.is_cpu
    }

    /// Whether variables in constant memory are at their recorded addresses. Code refers to them this way if constant
    /// memory is ordinary memory.
    fn has_absolute_constants(&self) -> bool {
        !self.is_nvidia()
    }
}

/// Describes the device. The CPU device accepts what the processor of the code accepts.
fn description(plan: &ExecutorPlan<'_>, device: &Gpu) -> Description {
    let mut description = device.description().clone();
    if let Some(processor) = plan.processor.as_ref().filter(|_| plan.is_cpu) {
        description.limits = description.limits.for_code_of(processor);
    }
    description
}

/// Opens the device. Also returns why the device's own clock does not time kernels, if it was requested.
fn open(plan: &ExecutorPlan<'_>) -> Result<(Gpu, String), DeviceError> {
    let (profiler, reason) = plan.timing.start(plan.interface, &plan.library)?;
    let mut device = plan.interface.open(&plan.library, plan.ordinal)?;
    if let Some(profiler) = profiler {
        device.time_with(profiler);
    }
    Ok((device, reason))
}

/// Runs an executor and returns its exit status. Files for orders to write arrive through `files`.
pub fn serve(plan: &ExecutorPlan<'_>, mut supervisor: UnixStream, files: &UnixDatagram) -> i32 {
    match execute(plan, &mut supervisor, files) {
        Ok(()) => mneme_system::exit::VERIFIED,
        Err(Stop::Unfit(unfit)) => {
            let _ = frame::write(&mut supervisor, &ExecutorReport::Unfit(unfit), &[]);
            mneme_system::exit::NO_DEVICE
        }
        Err(Stop::Stream) => mneme_system::exit::INTERNAL,
    }
}

enum Stop {
    Unfit(StartError),
    /// The connection to the supervisor is lost.
    Stream,
}

impl From<std::io::Error> for Stop {
    fn from(_: std::io::Error) -> Self {
        Self::Stream
    }
}

fn execute(plan: &ExecutorPlan<'_>, supervisor: &mut UnixStream, files: &UnixDatagram) -> Result<(), Stop> {
    // After this, a kernel that writes to the snapshot fails like one that writes to any foreign memory.
    plan.snapshot.seal().map_err(std::io::Error::from)?;
    let (device, untimed) = open(plan).map_err(|error| unfit(plan, None, &error))?;
    let mut confined = None;
    if plan.is_cpu {
        // The CPU device runs kernels in this process, and starts no thread before the first one.
        let writable = plan.dump.map(Path::to_path_buf).into_iter().collect();
        let allowed = AllowedResources {
            writable,
            descriptors: vec![supervisor.as_raw_fd(), files.as_raw_fd()],
            ..AllowedResources::default()
        };
        confined = Some(confinement::enter(&allowed));
    }
    frame::write(supervisor, &ExecutorReport::Device(description(plan, &device), confined), &[])?;
    let failed = |error| unfit(plan, Some(&device), &error);
    let mut memory = ResidentMemory::map(&device, plan).map_err(failed)?;
    let mut runner = Runner::new(&device, plan, untimed);
    while let Some((order, image)) = frame::read::<ExecutorRequest>(supervisor)? {
        match order {
            ExecutorRequest::Load => {
                memory.upload().map_err(failed)?;
                frame::write(supervisor, &ExecutorReport::Ready, &[])?;
            }
            ExecutorRequest::Run(number, order) => {
                frame::write(supervisor, &ExecutorReport::Began(number), &[])?;
                let file = order.spec.memory.as_ref().map(|_| files::receive(files));
                let begin = Instant::now();
                let done = runner.run(&mut memory, &order, &image, file);
                let done = message::RunOutcome { took: begin.elapsed(), ..done };
                show_what_was_printed();
                let broken = done.broken;
                frame::write(supervisor, &ExecutorReport::Done(number, Box::new(done)), &[])?;
                if broken {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// An executor within this process, for profilers and debuggers, which follow a single process best.
pub struct InProcessExecutor<'a> {
    description: Description,
    memory: ResidentMemory<'a>,
    runner: Runner<'a>,
}

impl<'a> InProcessExecutor<'a> {
    /// Opens the device and makes the decoded snapshot resident on it.
    pub fn open(plan: ExecutorPlan<'a>) -> Result<Self, StartError> {
        // Both last as long as the process.
        let plan: &'a ExecutorPlan<'a> = Box::leak(Box::new(plan));
        let reason = |device: Option<&Gpu>, error| match unfit(plan, device, &error) {
            Stop::Unfit(reason) => reason,
            Stop::Stream => StartError::Device(error.to_string()),
        };
        let (device, untimed) = open(plan).map_err(|error| reason(None, error))?;
        let device: &'a Gpu = Box::leak(Box::new(device));
        let failed = |error| reason(Some(device), error);
        let mut memory = ResidentMemory::map(device, plan).map_err(failed)?;
        memory.upload().map_err(failed)?;
        Ok(Self { description: description(plan, device), memory, runner: Runner::new(device, plan, untimed) })
    }

    pub fn description(&self) -> &Description {
        &self.description
    }

    pub fn run(&mut self, order: &message::RunRequest, image: &[u8]) -> message::RunOutcome {
        let file = order.spec.memory.as_deref().map(files::create);
        let done = self.runner.run(&mut self.memory, order, image, file);
        show_what_was_printed();
        done
    }
}

/// Flushes the C library's buffers: kernels print through them, and a superfluous executor is killed.
fn show_what_was_printed() {
    // SAFETY: null stands for all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

fn unfit(plan: &ExecutorPlan<'_>, device: Option<&Gpu>, error: &DeviceError) -> Stop {
    Stop::Unfit(match error {
        DeviceError::Clash { .. } => StartError::Clash(error.to_string()),
        DeviceError::OutOfMemory { .. } => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let wanted = gib(plan.snapshot.layout.memory_bytes());
            let name = device.map_or("the device", |device| device.description().name.as_str());
            let total = device.and_then(|device| device.memory().ok()).map_or(0, |(_, total)| total);
            let total = gib(total);
            StartError::Device(format!(
                "the recording needs {wanted:.2} GiB of device memory and room to restore it from, which {name} ({total:.2} GiB in all) does not \
                 have free: end other programs on it or replay on a larger device"
            ))
        }
        _ => StartError::Device(error.to_string()),
    })
}
