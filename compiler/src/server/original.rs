//! The application's own code, in place of a build.

use std::fmt::Display;

use mneme_builds::{BuildOutcome, Built, NotBuilt, RecordedKernel, Target};
use mneme_image::{code_object, cubin, ptx};
use mneme_model::architecture::{Architecture, Processor};
use mneme_model::hash::checksum;
use mneme_model::result::ReplayStatus;
use mneme_recording::CodeKind;
use mneme_recording::database::CodeFile;

use super::inputs::Build;

/// Returns the form of the code that the build's target runs, unchanged.
pub fn of(build: &Build<'_>) -> BuildOutcome {
    let invalid = |error: &dyn Display| NotBuilt::new(ReplayStatus::InvalidConfig, error);
    build.spec.configuration.check().map_err(|error| invalid(&error))?;
    if build.spec.instrument.is_some() || build.inputs.plan.external.is_some() {
        return Err(invalid(
            &"looking for faults, watching writes and --opt change the code; use them with a pipeline",
        ));
    }
    let recorded = &build.inputs.plan.recorded;
    let kernel = &recorded.name;
    let (mut image, kind) = read(recorded, build.target)?;
    let assembler = match kind {
        CodeKind::Ptx => "the driver: the application's own PTX",
        _ => "none: the application's own code",
    };
    if kind == CodeKind::Ptx {
        image.push(0);
    }
    Ok((Built { entry: kernel.clone(), assembler: assembler.into(), ..Built::default() }, image))
}

/// Reads the first form that the target runs.
fn read(recorded: &RecordedKernel, target: &Target) -> Result<(Vec<u8>, CodeKind), NotBuilt> {
    let invalid = |error: &str| NotBuilt::new(ReplayStatus::InvalidConfig, error);
    let forms = &recorded.original;
    if forms.is_empty() {
        return Err(invalid(
            "the recording does not hold the code that the application ran; record it again, or replay a pipeline",
        ));
    }
    for CodeFile { file, checksum: sum } in forms {
        let path = recorded.folder.join(file);
        let broken = |what: &dyn std::fmt::Display| {
            NotBuilt::new(ReplayStatus::CompileError, format!("{}: {what}", path.display()))
        };
        let bytes = std::fs::read(&path).map_err(|error| broken(&error))?;
        if checksum(&bytes) != *sum {
            return Err(broken(&"its checksum does not match"));
        }
        let kind = CodeKind::of(file);
        if runs_on(&bytes, kind, &recorded.name, target) {
            return Ok((bytes, kind));
        }
    }
    Err(invalid("the code that the application ran is for another device; replay a pipeline"))
}

fn runs_on(code: &[u8], kind: CodeKind, kernel: &str, target: &Target) -> bool {
    let device = match target {
        Target::Cpu { .. } => return kind == CodeKind::CpuObject,
        Target::Amdgpu { arch } => {
            let object = code_object::parse(code).filter(|_| kind == CodeKind::CodeObject);
            return object
                .zip(Processor::parse(arch))
                .is_some_and(|(object, device)| object.processor.machine_code_runs_on(&device));
        }
        Target::Nvptx { arch } => Architecture::parse(arch).map_or(u32::MAX, |device| device.number),
    };
    match kind {
        CodeKind::Cubin => {
            cubin::parse(code).and_then(|cubin| cubin.architecture).is_some_and(|it| it.machine_code_runs_on(device))
        }
        CodeKind::Ptx => {
            let text = String::from_utf8_lossy(code);
            let closure = ptx::PtxModule::parse(&text).closure(kernel);
            let target = closure.and_then(|closure| Architecture::parse(closure.target.as_deref()?));
            target.is_some_and(|target| target.ptx_compiles_for(device))
        }
        CodeKind::Bitcode | CodeKind::Llir | CodeKind::CpuObject | CodeKind::CodeObject => false,
    }
}
