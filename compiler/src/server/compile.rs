//! One build in the current process: LLVM and the assembler on recorded or other code.

use mneme_builds::progress::BuildProgress;
use mneme_builds::{
    BuildOutcome, BuildText, BuildTexts, Built, Keep, NotBuilt, Probe, ProbeResult, Replacement, probe::Inventory,
};
use mneme_model::compile_options::CompileOptions;
use mneme_model::result::ReplayStatus;

use super::inputs::Build;
use super::original;
use inkwell::module::Module;

use crate::build::Hooks;
use crate::error::BuildError;
use crate::pipeline::{CodegenInvocations, Invocations, revise};
use crate::request::{BuildRequest, InputCode, RecordedLaunch};

/// Compiles. If `is_known` says that equal PTX was assembled before, the result has no image. `reader` receives the
/// texts on the way, if the build asks for them.
pub fn compile(
    build: &Build<'_>,
    is_known: &mut dyn FnMut(&str) -> bool,
    reader: &mut dyn FnMut(BuildText, &str),
) -> BuildOutcome {
    if build.spec.configuration.original {
        return original::of(build);
    }
    run(build, is_known, reader).map_err(|error| {
        let status = if error.is_usage() { ReplayStatus::InvalidConfig } else { ReplayStatus::CompileError };
        NotBuilt {
            place: build.progress.and_then(BuildProgress::last),
            rejected: matches!(error, BuildError::Assemble { .. }),
            is_no_pipeline: matches!(error, BuildError::NoPipeline { .. }),
            ..NotBuilt::new(status, error.to_string())
        }
    })
}

fn run(
    build: &Build<'_>,
    is_known: &mut dyn FnMut(&str) -> bool,
    reader: &mut dyn FnMut(BuildText, &str),
) -> Result<(Built, Vec<u8>), BuildError> {
    let Build { inputs, spec, .. } = *build;
    let replacement = build.replacement();
    let modules: Vec<&[u8]> = match replacement {
        Some(Replacement::Ir(bytes)) => vec![bytes],
        _ => inputs.modules.iter().map(Vec::as_slice).collect(),
    };
    let code = match (replacement, build.preloaded) {
        (Some(Replacement::Ptx(ptx)), _) => InputCode::Ptx(ptx),
        (Some(Replacement::Cubin(cubin)), _) => InputCode::Cubin(cubin),
        (None, Some(preloaded)) => InputCode::Loaded(preloaded),
        (None | Some(Replacement::Ir(_)), _) => InputCode::Ir(&modules),
    };
    let recorded = &inputs.plan.recorded;
    let launches: Vec<&[u64]> = recorded.launches.iter().map(Vec::as_slice).collect();
    let mut compiled = recorded.compiled.clone();
    if let (Some(application), true) = (&mut compiled, replacement.is_some()) {
        // Other code says itself which products may be fused.
        application.contract.clear();
    }
    if let Some(fuses) = spec.probe.fuses {
        let unknown = || CompileOptions { ptx_opt: 3, ..CompileOptions::default() };
        compiled = Some(compiled.unwrap_or_else(unknown).fusing(fuses));
    }
    let mut request = BuildRequest::new(code, &recorded.name, build.target, &spec.configuration);
    request.recorded = RecordedLaunch {
        arguments: &recorded.arguments,
        variables: &recorded.variables,
        allocations: &recorded.allocations,
        launches: &launches,
        signature: &recorded.signature,
        compiled: compiled.as_ref(),
    };
    let before = inputs.plan.keep.before || spec.probe.before;
    request.keep = Keep {
        before,
        pipeline: spec.probe.expanded,
        until: spec.probe.until,
        after: inputs.plan.keep.after || spec.keep_ir,
        isa: inputs.plan.keep.isa,
    };
    request.external = inputs.plan.external.as_ref();
    request.instrument = spec.instrument;
    request.lines = spec.tells_lines();
    request.progress = build.progress;
    let (mut passes, mut codegen) = observers(&spec.probe);
    let mut inventory = Inventory::default();
    let mut revise = |module: &Module<'_>| {
        for revision in &spec.probe.revisions {
            inventory = revise::revise(module, &recorded.name, *revision)?;
        }
        Ok(())
    };
    let hooks = Hooks {
        observer: Some(&mut passes),
        revise: Some(&mut revise),
        codegen: Some(&mut codegen),
        is_known: Some(is_known),
        reader: build.reports_texts().then_some(reader),
    };
    let artifact = crate::build::build_with(&request, hooks)?;
    let built = Built {
        entry: artifact.entry,
        preprocess: artifact.times.read + artifact.times.specialise,
        optimise: artifact.times.optimise,
        codegen: artifact.times.codegen + artifact.times.assemble,
        shared_is_static: artifact.shared_is_static,
        lifted: artifact.lifted,
        assembler: artifact.assembler,
        spills: artifact.spills,
        texts: BuildTexts { ir_before: artifact.ir_before, ir: artifact.ir, ptx: artifact.ptx, isa: artifact.isa },
        instrumented: artifact.instrumented,
        log: artifact.log,
        looked: looked(&spec.probe, passes, codegen, artifact.pipeline, inventory),
    };
    Ok((built, artifact.image))
}

/// The observers of the pipeline and of code generation.
fn observers(probe: &Probe) -> (Invocations, CodegenInvocations) {
    let passes = Invocations { limit: probe.passes, shown: probe.shown, ..Invocations::default() };
    (passes, CodegenInvocations::limited(probe.codegen_passes))
}

fn looked(
    probe: &Probe,
    passes: Invocations,
    codegen: CodegenInvocations,
    pipeline: Option<String>,
    inventory: Inventory,
) -> ProbeResult {
    let (ran, codegen_passes) = if probe.listed { (passes.ran, codegen.ran) } else { Default::default() };
    ProbeResult { passes: ran, codegen_passes, shown: passes.before.zip(passes.after), pipeline, inventory }
}
