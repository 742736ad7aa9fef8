//! Results as data, which users of upstream read from standard output.

use std::collections::BTreeMap;
use std::sync::Once;

use mneme_builds::BuildOutcome;
use mneme_image::code_object::{self, CodeObject};
use mneme_image::elf;
use mneme_model::amd_hardware::{AmdRegisters, Hardware};
use mneme_model::configuration::{CacheState, Configuration};
use mneme_model::device::{Description, DeviceLimits, Timer};
use mneme_model::result::{AmdMetrics, ReplayResult, ReplayStatus};
use serde::Serialize;

use crate::execute::message::{Noted, RunOutcome};
use crate::job::Job;
use crate::recording::snapshot::SnapshotRegion;
use crate::report::observed;

/// The object that a one-shot replay prints.
#[derive(Serialize)]
pub struct PrintedResult<'a> {
    #[serde(rename = "Replay-config")]
    pub configuration: &'a Configuration,
    #[serde(rename = "Result")]
    pub result: &'a ReplayResult,
}

/// Combines the reports of builder and executor.
///
/// `regions` are those of the recorded memory. `llvm` is the version that compiles, or "".
pub fn result(
    start: &jiff::Timestamp,
    job: &Job,
    outcome: Option<&BuildOutcome>,
    done: &RunOutcome,
    device: Option<&Description>,
    regions: &[SnapshotRegion],
    llvm: &str,
) -> ReplayResult {
    let verified = done.status == ReplayStatus::Verified;
    let mut result = ReplayResult {
        exec_time: done.times.clone(),
        verified,
        executed: done.executed,
        failed: !done.status.is_as_recorded() && done.status != ReplayStatus::FailedVerification,
        start_time: start.to_string(),
        end_time: jiff::Timestamp::now().to_string(),
        const_mem_usage: done.metrics.constant,
        local_mem_usage: done.metrics.local,
        reg_usage: done.metrics.registers,
        error: done.error.clone(),
        status: done.status,
        warmup: (done.warmup.unwrap_or(job.run.warmup) as usize).min(done.times.len()),
        mismatch: done.mismatches.first().cloned(),
        more_mismatches: done.mismatches.iter().skip(1).cloned().collect(),
        differing_buffers: done.differing_buffers,
        energy_j: done.energy,
        counters: done.counters.clone(),
        counters_reason: done.counters_reason.clone(),
        mapped_addresses: done.mapped_addresses,
        evidence: done.evidence.clone(),
        largest: done.largest.filter(|_| done.status.is_as_recorded()),
        variations: done.variations.clone(),
        metrics: done.metrics.clone(),
        ..ReplayResult::default()
    };
    result.outliers = outliers(&result);
    if let Some(Ok((built, image))) = outcome {
        let section = format!(".text.{}", built.entry);
        result.metrics.code_size = elf::section(image, &section).map_or(-1, |code| code.len() as i64);
        if let Some(object) = code_object::parse(image) {
            resources(&mut result, &object, &built.entry, job.configuration());
        }
    }
    let environment = &mut result.environment;
    environment.clocks = done.clocks.clone();
    environment.timer = if done.times.is_empty() { String::new() } else { done.timer.name().into() };
    if !done.times.is_empty() && done.timer == Timer::Events {
        environment.timer_reason = done.timer_reason.clone();
    }
    environment.versions = BTreeMap::from([("mneme".into(), env!("CARGO_PKG_VERSION").into())]);
    if !llvm.is_empty() {
        environment.versions.insert("llvm".into(), llvm.into());
    }
    if let Some(Ok((built, image))) = outcome {
        result.preprocess_ir_time = built.preprocess;
        result.opt_time = built.optimise;
        result.codegen_time = built.codegen;
        result.obj_size = image.len() as u64;
        result.shared_is_static = built.shared_is_static;
        result.lifted = built.lifted;
        if let Some(spills) = built.spills {
            let bytes = |count| i64::try_from(count).unwrap_or(i64::MAX);
            (result.metrics.spill_stores, result.metrics.spill_loads) = (bytes(spills.stores), bytes(spills.loads));
        }
        let stages = [("preprocess", built.preprocess), ("optimise", built.optimise), ("codegen", built.codegen)];
        result.metrics.build_times = stages.map(|(stage, seconds)| (stage.to_owned(), seconds)).into();
        environment.versions.insert("assembler".into(), built.assembler.clone());
        if let (Some(observe), Some(instrumented)) = (job.run.observe, &built.instrumented) {
            match &done.noted {
                Some(Noted::Writes { count, last }) => {
                    result.last_write = last.and_then(|last| {
                        observed::last_write(job.configuration(), observe, instrumented, &last, *count)
                    });
                }
                Some(Noted::Faults(noted)) => {
                    result.faults = Some(observed::faults(job.configuration(), instrumented, noted, regions));
                }
                Some(Noted::Touched { ranges, traffic, arithmetic }) => {
                    result.touched = Some(observed::touched(instrumented, ranges, *traffic, *arithmetic));
                }
                None => {}
            }
        }
        environment.code = mneme_model::hash::chunk_id(image).to_string();
    }
    if let Some(device) = device {
        if done.status == ReplayStatus::InvalidLaunch {
            result.error += &exceeded(job.configuration(), &device.limits, done.metrics.static_shared);
        }
        if job.configuration().cache == CacheState::Cold && device.limits.l2_cache.unwrap_or(0) == 0 {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                tracing::warn!("cache: cold has no effect: {} does not report the size of its cache", device.name);
            });
        }
        result.gpu_id = device.ordinal;
        environment.device = device.name.clone();
        environment.arch = device.arch.clone();
        environment.driver = device.driver.clone();
    }
    result
}

/// Fills in the resources of a code object of an AMD GPU. Values from the device take precedence.
fn resources(result: &mut ReplayResult, object: &CodeObject, entry: &str, configuration: &Configuration) {
    let Some(kernel) = object.kernels.iter().find(|kernel| kernel.name == entry) else { return };
    let threads = u32::try_from(configuration.block.count()).unwrap_or(u32::MAX);
    let shared = kernel.group_segment.saturating_add(configuration.shared_mem);
    let hardware = Hardware::of(&object.processor, kernel.wavefront_size, false);
    let waves = hardware.waves(AmdRegisters { sgprs: kernel.sgprs, vgprs: kernel.vgprs }, threads, shared);
    let metrics = &mut result.metrics;
    for (metric, said) in [
        (&mut metrics.registers, i64::from(kernel.vgprs)),
        (&mut metrics.local, i64::from(kernel.private_segment)),
        (&mut metrics.static_shared, i64::from(kernel.group_segment)),
        (&mut metrics.dynamic_shared, i64::from(configuration.shared_mem)),
    ] {
        if *metric < 0 {
            *metric = said;
        }
    }
    metrics.code_size = i64::try_from(kernel.code_size).unwrap_or(i64::MAX);
    // A register of a work item has four bytes.
    metrics.spill_stores = 4 * i64::from(kernel.vgpr_spills);
    metrics.occupancy = metrics.occupancy.or(Some(f64::from(waves) / f64::from(hardware.most_waves)));
    metrics.amd = Some(AmdMetrics {
        vgprs: kernel.vgprs.into(),
        agprs: kernel.agprs.into(),
        sgprs: kernel.sgprs.into(),
        vgpr_spills: kernel.vgpr_spills.into(),
        sgpr_spills: kernel.sgpr_spills.into(),
        wavefront_size: kernel.wavefront_size.into(),
        waves_per_simd: waves.into(),
    });
    (result.reg_usage, result.local_mem_usage) = (metrics.registers, metrics.local);
}

/// The result of an invalid request, for which no work was started. `device` is the one that would have run it, if
/// known.
pub fn refused(error: String, recorded: &Configuration, device: Option<&Description>) -> ReplayResult {
    let job = Job::new(0, recorded.clone(), 0, 0);
    let done = RunOutcome { status: ReplayStatus::InvalidConfig, error, ..RunOutcome::default() };
    result(&jiff::Timestamp::now(), &job, None, &done, device, &[], "")
}

/// The indices in `exec_time` of measured runs far above the others, as [`ReplayResult::outliers`] defines them.
fn outliers(result: &ReplayResult) -> Vec<usize> {
    let mut sorted = result.measured().to_vec();
    sorted.sort_unstable();
    if sorted.len() < 4 {
        return Vec::new();
    }
    let quantile = |part: usize| sorted[(sorted.len() - 1) * part / 4] as f64;
    let (lower, median, upper) = (quantile(1), quantile(2), quantile(3));
    let bound = (median * 1.05).max(median + 3.0 * (upper - lower));
    let first = result.exec_time.len() - sorted.len();
    (first..result.exec_time.len()).filter(|place| result.exec_time[*place] as f64 > bound).collect()
}

/// The reason for a refused launch, of which the driver says only "invalid value": the limits that a configuration
/// exceeds, as the end of a sentence; empty if none is known. `static_shared` is the static shared memory of the code,
/// bytes.
fn exceeded(configuration: &Configuration, limits: &DeviceLimits, static_shared: i64) -> String {
    let threads = configuration.block.count();
    let mut reasons = Vec::new();
    if let Some(bound) = configuration
        .max_threads
        .filter(|bound| configuration.set_launch_bounds && *bound > 0 && u64::from(*bound) < threads)
    {
        reasons.push(format!("the block has {threads} threads and max_threads bounds the code to {bound}"));
    }
    if limits.max_threads > 0 && threads > u64::from(limits.max_threads) {
        reasons.push(format!("the block has {threads} threads and the device takes {}", limits.max_threads));
    }
    let own = u64::try_from(static_shared).unwrap_or(0);
    let shared = own + u64::from(configuration.shared_mem);
    let most = u64::from(limits.shared_mem_optin.unwrap_or(limits.shared_mem));
    if most > 0 && shared > most {
        let of_its_own = if own > 0 { format!(" ({own} of them static)") } else { String::new() };
        reasons.push(format!("a block needs {shared} bytes of shared memory{of_its_own} and the device has {most}"));
    }
    let axes = [
        ("x", configuration.grid.x, limits.max_grid.x, configuration.block.x, limits.max_block.x),
        ("y", configuration.grid.y, limits.max_grid.y, configuration.block.y, limits.max_block.y),
        ("z", configuration.grid.z, limits.max_grid.z, configuration.block.z, limits.max_block.z),
    ];
    for (axis, grid, most_of_grid, block, most_of_block) in axes {
        if most_of_grid > 0 && grid > most_of_grid {
            reasons.push(format!("the grid has {grid} blocks along {axis} and the device takes {most_of_grid}"));
        }
        if most_of_block > 0 && block > most_of_block {
            reasons.push(format!("the block has {block} threads along {axis} and the device takes {most_of_block}"));
        }
    }
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    fn of(status: ReplayStatus) -> ReplayResult {
        let configuration = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(1, 1, 1), 0);
        let job = Job::new(0, configuration, 3, 2);
        let done = RunOutcome { status, times: vec![5, 4, 3, 2, 1], ..RunOutcome::default() };
        result(&jiff::Timestamp::now(), &job, None, &done, None, &[], "19.1.7")
    }

    #[test]
    fn flags_and_exit_statuses_follow_from_the_status() {
        for (status, verified, failed, exit_status) in [
            (ReplayStatus::Verified, true, false, 0),
            (ReplayStatus::FailedVerification, false, false, 1),
            (ReplayStatus::Unproven, false, false, 6),
            (ReplayStatus::CompileError, false, true, 2),
            (ReplayStatus::InvalidLaunch, false, true, 3),
            (ReplayStatus::RuntimeError, false, true, 3),
            (ReplayStatus::Timeout, false, true, 4),
            (ReplayStatus::InvalidConfig, false, true, 64),
            (ReplayStatus::InternalError, false, true, 70),
        ] {
            let result = of(status);
            assert_eq!((result.verified, result.failed, result.status.exit_status()), (verified, failed, exit_status));
        }
    }

    #[test]
    fn what_is_refused_tells_what_is_known() {
        let device = Description { name: "a GPU".into(), arch: "sm_90".into(), ordinal: 3, ..Description::default() };
        let recorded = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(1, 1, 1), 0);
        let result = refused("no".into(), &recorded, Some(&device));
        assert_eq!((result.status, result.failed, result.error.as_str()), (ReplayStatus::InvalidConfig, true, "no"));
        assert_eq!(
            (result.gpu_id, result.environment.device.as_str(), result.environment.arch.as_str()),
            (3, "a GPU", "sm_90")
        );
        assert!(!result.environment.versions.contains_key("llvm"), "nothing was compiled");
        assert!(!result.start_time.is_empty() && result.reg_usage == -1);
    }

    #[test]
    fn code_objects_say_what_the_device_does_not() {
        let kernel = code_object::AmdKernel {
            name: "k".into(),
            vgprs: 96,
            sgprs: 30,
            vgpr_spills: 3,
            group_segment: 1024,
            private_segment: 16,
            wavefront_size: 64,
            code_size: 400,
            ..code_object::AmdKernel::default()
        };
        let processor = mneme_model::architecture::Processor::parse("gfx90a").unwrap();
        let object = CodeObject { processor, version: 5, kernels: vec![kernel], variables: Vec::new() };
        let mut result = ReplayResult::default();
        result.metrics.local = 64;
        let configuration = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(256, 1, 1), 0);
        resources(&mut result, &object, "k", &configuration);
        let metrics = &result.metrics;
        assert_eq!((metrics.registers, metrics.local, metrics.static_shared), (96, 64, 1024), "the device's stays");
        assert_eq!((metrics.code_size, metrics.spill_stores, metrics.occupancy), (400, 12, Some(5.0 / 8.0)));
        let amd = metrics.amd.unwrap();
        assert_eq!((amd.waves_per_simd, amd.wavefront_size, amd.sgprs), (5, 64, 30));
        let json = serde_json::to_value(metrics).unwrap();
        assert_eq!((&json["vgprs"], &json["registers"]), (&96.into(), &96.into()));
        let of_nvidia = serde_json::to_value(mneme_model::result::Metrics::default()).unwrap();
        assert!(of_nvidia.get("vgprs").is_none());
    }

    #[test]
    fn runs_far_above_the_others_are_outliers() {
        let of = |exec_time: &[u64], warmup| {
            outliers(&ReplayResult { exec_time: exec_time.to_vec(), warmup, ..ReplayResult::default() })
        };
        assert_eq!(of(&[900, 100, 101, 102, 100, 400, 101], 1), [5]);
        assert_eq!(of(&[100, 101, 102, 104], 0), [0; 0], "near enough");
        assert_eq!(of(&[1, 100], 0), [0; 0], "too few to tell");
    }

    #[test]
    fn warm_up_runs_come_first_and_times_are_in_order() {
        let result = of(ReplayStatus::Verified);
        assert_eq!(result.measured(), [3, 2, 1]);
        let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        assert!(time(&result.start_time) <= time(&result.end_time));
    }

    #[test]
    fn limits_that_are_passed_are_named() {
        let limits = DeviceLimits {
            max_threads: 1024,
            max_grid: Dim3::new(1 << 30, 65535, 65535),
            max_block: Dim3::new(1024, 1024, 64),
            shared_mem: 49152,
            shared_mem_optin: Some(232_448),
            ..DeviceLimits::default()
        };
        let mut configuration = Configuration::recorded(Dim3::new(10, 1, 1), Dim3::new(256, 1, 1), 0);
        assert_eq!(exceeded(&configuration, &limits, -1), "");
        (configuration.set_launch_bounds, configuration.max_threads) = (true, Some(32));
        assert_eq!(
            exceeded(&configuration, &limits, 0),
            ": the block has 256 threads and max_threads bounds the code to 32"
        );
        configuration.set_launch_bounds = false;
        (configuration.shared_mem, configuration.grid.y) = (232_448, 70_000);
        assert_eq!(
            exceeded(&configuration, &limits, 16),
            ": a block needs 232464 bytes of shared memory (16 of them static) and the device has 232448; the grid has 70000 blocks along y \
             and the device takes 65535"
        );
    }
}
