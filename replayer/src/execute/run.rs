//! A run request: loads a code object, prepares its launch and runs it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use mneme_device::counters::Counters;
use mneme_device::{ContextLimit, Device, DeviceError, DeviceFunction, DeviceModule, ProfilerError};
use mneme_model::amd_hardware::shared_of_block;
use mneme_model::hash::chunk_id;
use mneme_model::launch::{DEFAULT_DYNAMIC_SHARED, Launch, Limits};
use mneme_model::result::{Doubt, Evidence, Metrics, ReplayStatus};

use super::calibration::Calibration;
use super::counting::{self, CountedSeries};
use super::fresh::{FreshBasis, FreshRuns};
use super::input::FreshInput;
use super::kept::{self, Habits, OwnVariables};
use super::launch::repaired;
use super::message::{FirstRun, Oracle, RunOutcome, RunRequest};
use super::nvml::Nvml;
use super::observe::Observer;
use super::resident::ResidentMemory;
use super::series::Series;
use super::survey::Survey;
use super::variables::MovedVariables;
use super::{ExecutorPlan, energy};
use crate::verify::comparison::RegionComparison;
use crate::verify::evidence;

/// Blocks of a cluster that every device with clusters takes (CUDA Programming Guide, "Thread Block Clusters").
const PORTABLE_CLUSTER: u64 = 8;

/// Upper limit of what a multiprocessor writes, in bytes per ns: 128 per clock at 4 GHz.
const FASTEST: u64 = 512;

/// Runs code objects on a device.
pub struct Runner<'a> {
    device: &'a dyn Device,
    plan: &'a ExecutorPlan<'a>,
    /// Reads clocks. It starts in the background, because that takes tens of milliseconds.
    nvml: Option<Nvml>,
    starting: Option<Receiver<Option<Nvml>>>,
    /// The limits set on the context.
    limits: Limits,
    /// Counts launches. Opened on first use; contains the error if that failed.
    counters: Option<Result<Counters, ProfilerError>>,
    /// Why events time kernels instead of the requested timer.
    untimed: String,
    fresh: FreshBasis,
    /// The evidence that comparisons give, and the rules that it is for.
    evidence: Option<(Vec<RegionComparison>, Evidence)>,
}

impl<'a> Runner<'a> {
    pub fn new(device: &'a dyn Device, plan: &'a ExecutorPlan<'a>, untimed: String) -> Self {
        let starting = device.bus_id().filter(|_| plan.is_nvidia()).map(|bus_id| {
            let (sender, receiver) = channel();
            std::thread::spawn(move || sender.send(Nvml::open(&bus_id)));
            receiver
        });
        Self {
            device,
            plan,
            nvml: None,
            starting,
            limits: Limits::default(),
            counters: None,
            untimed,
            fresh: FreshBasis::default(),
            evidence: None,
        }
    }

    /// Runs a code object. Memory must be as recorded before the launch, and is so again on return, unless the answer
    /// says that the context is broken. `file` receives the memory after the run if the order asks for it.
    pub fn run(
        &mut self,
        memory: &mut ResidentMemory<'_>,
        order: &RunRequest,
        image: &[u8],
        file: Option<io::Result<File>>,
    ) -> RunOutcome {
        let timer_reason = self.untimed.clone();
        let mut done = RunOutcome { status: ReplayStatus::RuntimeError, timer_reason, ..RunOutcome::default() };
        let module = match self.device.load(order.code(image)) {
            Ok(module) => module,
            Err(error) => {
                done.error = format!("the device does not take the code object: {error}");
                return done;
            }
        };
        memory.hide_copies(order.spec.thorough);
        if let Err(error) = self.launches(memory, order, (module, image), file.as_ref(), &mut done) {
            (done.status, done.error) = if error.is_refused_launch() {
                (ReplayStatus::InvalidLaunch, format!("the launch was refused: {error}"))
            } else {
                (ReplayStatus::RuntimeError, format!("the kernel failed: {error}"))
            };
        }
        if !done.broken && self.device.unload(module).is_err() {
            done.broken = true;
        }
        self.prove(order, &mut done);
        done
    }

    /// Notes how much the match with the recording proves, and whether that is too little.
    fn prove(&mut self, order: &RunRequest, done: &mut RunOutcome) {
        // Hashed memory was not compared.
        if done.status != ReplayStatus::Verified || order.spec.digest || order.spec.calibrate.is_some() {
            return;
        }
        if order.spec.alone.is_some() {
            // Other runs show enough.
            if let Some(doubt) = done.doubts.first() {
                (done.status, done.error) = (ReplayStatus::Unproven, Evidence::doubtful(doubt));
            }
            return;
        }
        let comparisons = self.plan.bounds.comparisons(order.spec.tolerance);
        if self.evidence.as_ref().is_none_or(|(known, _)| *known != comparisons) {
            let mut found = evidence::of(self.plan.snapshot, &comparisons);
            found.not_searched = self.plan.not_searched.to_owned();
            self.evidence = Some((comparisons, found));
        }
        let (fresh_inputs, runs, doubts) = (done.fresh_inputs.clone(), done.runs, done.doubts.clone());
        let found = self.evidence.as_ref().filter(|_| order.spec.runs_as_recorded()).map(|(_, found)| found.clone());
        done.evidence = Some(Evidence { fresh_inputs, runs, doubts, ..found.unwrap_or_default() });
        let too_fast = self.too_fast(done);
        if let Some(found) = &mut done.evidence {
            found.doubts.extend(too_fast);
        }
        let is_enough = |found: &&Evidence| found.proves() || (order.spec.proven && found.doubts.is_empty());
        if let Some(found) = done.evidence.as_ref().filter(|found| !is_enough(found)) {
            let why = if found.not_searched.is_empty() { String::new() } else { format!(" ({})", found.not_searched) };
            (done.status, done.error) = (ReplayStatus::Unproven, found.shortage() + &why);
        }
    }

    /// A doubt if the runs took less time than the device needs to write the expected bytes.
    fn too_fast(&self, done: &RunOutcome) -> Option<Doubt> {
        let multiprocessors = self.device.description().limits.multiprocessors.filter(|count| *count > 0)?;
        let shown = self.evidence.as_ref().map_or(0, |(_, found)| found.shown);
        let least = shown / (u64::from(multiprocessors) * FASTEST);
        let time = done.times.iter().filter(|time| **time > 0).min().copied()?;
        (time < least).then_some(Doubt::TooFast { time, least })
    }

    fn launches(
        &mut self,
        memory: &mut ResidentMemory<'_>,
        order: &RunRequest,
        (module, blob): (DeviceModule, &[u8]),
        file: Option<&io::Result<File>>,
        done: &mut RunOutcome,
    ) -> Result<(), DeviceError> {
        let device = self.device;
        let function = device.function(module, &order.entry)?;
        let launch =
            Launch { grid: order.grid, block: order.block, shared_mem: order.shared_mem, attributes: order.attributes };
        done.metrics = metrics(device, function, &launch);
        if self.plan.is_cpu {
            // The CPU device has none of these, but its driver can only report 0.
            (done.metrics.registers, done.metrics.local, done.metrics.constant) = (-1, -1, -1);
        }
        let moved = MovedVariables::of(memory, module, self.plan.arguments)?;
        done.missing.clone_from(&moved.missing);
        self.allow(function, &launch, done.metrics.static_shared)?;
        self.set_limits(&launch)?;
        let comparisons = self.plan.bounds.comparisons(order.spec.tolerance);
        if let Some((observe, watch)) = order.spec.observe.zip(order.watch.as_ref()) {
            let observer = Observer {
                device,
                is_cpu: self.plan.is_cpu,
                observe,
                watch,
                moved: &moved,
                module,
                function,
                launch: &launch,
            };
            return observer.run(memory, &comparisons, done);
        }
        let mut survey = order.spec.survey.then(Survey::default);
        let series =
            Series { device, arguments: self.plan.arguments, order, function, launch, moved, comparisons, file };
        if let Some(regions) = &order.spec.calibrate {
            done.calibrated = Some(Box::new(Calibration::new(&series, memory, done, regions).find()?));
            done.status = ReplayStatus::Verified;
            return Ok(());
        }
        let mut own = match order.spec.thorough {
            true => OwnVariables::of(device, self.plan.snapshot, module, order.code(blob))?,
            false => OwnVariables::default(),
        };
        if order.spec.runs_as_recorded() && !series.run(memory, survey.as_mut(), done)? {
            return Ok(());
        }
        repaired(own.look(device), done)?;
        done.clocks = self.nvml().and_then(Nvml::clocks);
        if order.spec.energy {
            let launch = || {
                series.moved.bring(device)?;
                device.run(function, &series.launch, series.moved.arguments())?;
                series.moved.take_back(device)
            };
            done.energy = repaired(self.energy(memory, launch), done)?;
        }
        if !order.spec.counters.is_empty() {
            match repaired(self.count(memory, &series), done)? {
                Ok(counters) => done.counters = counters,
                Err(error) => done.counters_reason = error.to_string(),
            }
        }
        done.status = ReplayStatus::Verified;
        if let Some(survey) = survey {
            let (same, variations) = survey.end(memory, &series.comparisons);
            if !same {
                done.status = ReplayStatus::FailedVerification;
                done.error = "the runs differ from the recording by more than the tolerances allow".into();
            }
            done.variations = Some(variations);
        }
        if order.spec.thorough && order.spec.alone.is_none() {
            series.repeat(memory, &mut own, done)?;
        }
        if let Some(oracle) = order.oracle.as_ref().filter(|_| done.status == ReplayStatus::Verified) {
            self.judge(memory, &series, oracle, blob, done)?;
        }
        if done.status == ReplayStatus::Verified && order.spec.thorough {
            if !done.broken {
                repaired(own.look(device), done)?;
            }
            self.doubt(memory, order, own, blob, done);
        }
        Ok(())
    }

    /// Notes what speaks against code that is right in all runs.
    fn doubt(
        &self,
        memory: &ResidentMemory<'_>,
        order: &RunRequest,
        own: OwnVariables,
        blob: &[u8],
        done: &mut RunOutcome,
    ) {
        let variables = own.changed();
        if !variables.is_empty() {
            done.doubts.push(Doubt::KeepsState { variables });
        }
        let [its, own] = Habits::of_both(order, blob);
        done.doubts.extend((its.reads_clock && !own.reads_clock).then_some(Doubt::ReadsClock));
        let is_clean = order.own_process && order.is_compiled && kept::counts_allocations(order.code(blob));
        done.doubts.extend((its.uses_heap && !own.uses_heap && !is_clean).then_some(Doubt::UsesHeap));
        // Code for the recorded arguments has no others.
        let arguments = if order.folds_arguments { &[] } else { self.plan.arguments };
        let needs_fresh_input = order.spec.needs_fresh_input && FreshInput::exists(memory, arguments);
        done.doubts.extend((needs_fresh_input && done.fresh_inputs.agreed == 0).then_some(Doubt::NoFreshInput));
    }

    /// Runs the code on fresh inputs. If the oracle cannot run, the verdict stays.
    fn judge(
        &mut self,
        memory: &mut ResidentMemory<'_>,
        code: &Series<'_>,
        oracle: &Oracle,
        blob: &[u8],
        done: &mut RunOutcome,
    ) -> Result<(), DeviceError> {
        let Some((module, oracle_series)) = self.other(memory, code, oracle, blob, done) else { return Ok(()) };
        let mut modules = vec![module];
        let mut pipelines = Vec::new();
        for pipeline in &code.order.pipelines {
            if let Some((module, series)) = self.other(memory, code, pipeline, blob, done) {
                modules.push(module);
                pipelines.push(series);
            }
        }
        let runs = FreshRuns {
            code,
            oracle: &oracle_series,
            oracle_code: chunk_id(oracle.code(blob)),
            pipelines: &pipelines,
            about: oracle,
            memory,
            basis: &mut self.fresh,
            done,
            is_timed: code.order.spec.thorough && code.order.spec.alone != Some(FirstRun::Fresh),
            is_first: code.order.spec.alone == Some(FirstRun::Fresh),
        };
        let judged = runs.judge(&code.order.spec.fresh_inputs);
        for module in modules {
            done.broken = done.broken || self.device.unload(module).is_err();
        }
        judged
    }

    /// Loads other code for the kernel. `None` if the device cannot run it.
    fn other<'s>(
        &self,
        memory: &ResidentMemory<'_>,
        code: &Series<'s>,
        other: &Oracle,
        blob: &[u8],
        done: &mut RunOutcome,
    ) -> Option<(DeviceModule, Series<'s>)> {
        let device = code.device;
        let module = device.load(other.code(blob)).ok()?;
        let launch = Launch {
            grid: other.grid,
            block: other.block,
            shared_mem: other.shared_mem,
            attributes: code.launch.attributes,
        };
        let prepared = device.function(module, &other.entry).and_then(|function| {
            self.allow(function, &launch, metrics(device, function, &launch).static_shared)?;
            Ok((function, MovedVariables::of(memory, module, code.arguments)?))
        });
        let Ok((function, moved)) = prepared else {
            done.broken |= device.unload(module).is_err();
            return None;
        };
        let (arguments, order, comparisons) = (code.arguments, code.order, Vec::new());
        Some((module, Series { device, arguments, order, function, launch, moved, comparisons, file: None }))
    }

    /// Sets the permissions that the launch needs, as far as the driver supports them.
    fn allow(&self, function: DeviceFunction, launch: &Launch, static_shared: i64) -> Result<(), DeviceError> {
        let static_shared = u32::try_from(static_shared).unwrap_or(0);
        if let Some(processor) = self.plan.processor.as_ref().filter(|_| self.plan.is_cpu)
            && static_shared.saturating_add(launch.shared_mem) > shared_of_block(processor)
        {
            return Err(DeviceError::Refused(format!("no block of {} has so much shared memory", processor.name)));
        }
        let limit = DEFAULT_DYNAMIC_SHARED.saturating_sub(static_shared);
        let recorded = launch.attributes.max_dynamic_shared.unwrap_or(0);
        if launch.shared_mem > limit {
            self.device.allow_dynamic_shared(function, launch.shared_mem.max(recorded)).or_else(|error| {
                if recorded > launch.shared_mem {
                    self.device.allow_dynamic_shared(function, launch.shared_mem)
                } else {
                    Err(error)
                }
            })?;
        } else if recorded > limit {
            // The launch may not need it, so ignore a refusal: this code may use more static memory than the recorded
            // code.
            let _ = self.device.allow_dynamic_shared(function, recorded);
        }
        if launch.attributes.cluster.is_some_and(|cluster| cluster.count() > PORTABLE_CLUSTER) {
            self.device.allow_large_clusters(function)?;
        }
        Ok(())
    }

    /// Gives the context the limits that it had during recording.
    fn set_limits(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        let limits = launch.attributes.limits;
        if limits == self.limits {
            return Ok(());
        }
        for (limit, value) in [
            (ContextLimit::Stack, limits.stack),
            (ContextLimit::PrintfFifo, limits.printf_fifo),
            (ContextLimit::MallocHeap, limits.malloc_heap),
        ] {
            value.map_or(Ok(()), |value| self.device.set_limit(limit, value))?;
        }
        self.limits = limits;
        Ok(())
    }

    /// Joules per launch, if the device counts them.
    fn energy(
        &mut self,
        memory: &ResidentMemory<'_>,
        launch: impl Fn() -> Result<(), DeviceError>,
    ) -> Result<Option<f64>, DeviceError> {
        if let Some(starting) = self.starting.take() {
            self.nvml = starting.recv().ok().flatten();
        }
        let Some(nvml) = &self.nvml else { return Ok(None) };
        energy::of_difference(|| nvml.millijoules(), || launch().and_then(|()| memory.restore()), || memory.restore())
    }

    /// Hardware counters of a launch, or the reason why there are none.
    fn count(
        &mut self,
        memory: &mut ResidentMemory<'_>,
        series: &Series<'_>,
    ) -> Result<Result<BTreeMap<String, f64>, ProfilerError>, DeviceError> {
        let plan = self.plan;
        let counters = self.counters.get_or_insert_with(|| counting::open(plan));
        match counters {
            Ok(counters) => counters.count(&series.order.spec.counters, &mut CountedSeries { memory, series }),
            Err(error) => Ok(Err(error.clone())),
        }
    }

    fn nvml(&mut self) -> Option<&Nvml> {
        match self.starting.as_ref().map(Receiver::try_recv) {
            Some(Ok(nvml)) => (self.nvml, self.starting) = (nvml, None),
            Some(Err(TryRecvError::Disconnected)) => self.starting = None,
            Some(Err(TryRecvError::Empty)) | None => {}
        }
        self.nvml.as_ref()
    }
}

fn metrics(device: &dyn Device, function: DeviceFunction, launch: &Launch) -> Metrics {
    let used = device.function_use(function);
    let occupancy = device.occupancy(function, launch);
    Metrics {
        registers: used.registers,
        local: used.local,
        constant: used.constant,
        static_shared: used.static_shared,
        dynamic_shared: i64::from(launch.shared_mem),
        active_blocks_per_sm: occupancy.map_or(-1, |(blocks, _)| blocks),
        occupancy: occupancy.map(|(_, fraction)| fraction),
        ..Metrics::default()
    }
}
