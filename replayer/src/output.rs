//! Results as data: what upstream's users read from standard output.

use std::collections::BTreeMap;

use mneme_core::configuration::Configuration;
use mneme_core::device::Description;
use mneme_core::result::{ReplayResult, Status};
use serde::Serialize;

use crate::builder::Outcome;
use crate::executor::message::Done;
use crate::supervisor::Job;

/// The one object that a one-shot replay prints.
#[derive(Serialize)]
pub struct Printed<'a> {
    #[serde(rename = "Replay-config")]
    pub configuration: &'a Configuration,
    #[serde(rename = "Result")]
    pub result: &'a ReplayResult,
}

/// Puts together what builder and executor reported.
pub fn result(start: &jiff::Timestamp, job: &Job, outcome: Option<&Outcome>, done: &Done, device: Option<&Description>) -> ReplayResult {
    let verified = done.status == Status::Verified;
    let mut result = ReplayResult {
        exec_time: done.times.clone(),
        verified,
        executed: done.executed,
        failed: !matches!(done.status, Status::Verified | Status::NotVerified),
        start_time: start.to_string(),
        end_time: jiff::Timestamp::now().to_string(),
        const_mem_usage: done.constant,
        local_mem_usage: done.local,
        reg_usage: done.registers,
        error: done.error.clone(),
        status: done.status,
        warmup: (job.warmup as usize).min(done.times.len()),
        versions: BTreeMap::from([("mneme".into(), env!("CARGO_PKG_VERSION").into()), ("llvm".into(), mneme_compiler::llvm_version())]),
        mismatch: done.mismatch.clone(),
        ..ReplayResult::default()
    };
    if let Some(Ok((built, image))) = outcome {
        result.preprocess_ir_time = built.preprocess;
        result.opt_time = built.optimise;
        result.codegen_time = built.codegen;
        result.obj_size = image.len() as u64;
        result.versions.insert("assembler".into(), built.assembler.clone());
    }
    if let Some(device) = device {
        result.gpu_id = device.ordinal;
        result.device = device.name.clone();
        result.driver = device.driver.clone();
    }
    result
}
