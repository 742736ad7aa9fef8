//! One build, in whatever process: LLVM and the assembler on recorded or other code.

use mneme_compiler::Module;
use mneme_compiler::pipeline::revise::{self, Inventory};
use mneme_compiler::progress::BuildProgress;
use mneme_compiler::{BuildError, BuildRequest, BuildText, BuildTexts, Hooks, InputCode, Keep, RecordedLaunch};
use mneme_core::result::Status;

use super::inputs::Build;
use super::original;
use super::outcome::{BuildOutcome, Built, NotBuilt};
use super::replacement::Replacement;

/// Compiles. Where `is_known` says of the PTX that an equal one has been assembled, there is no image. `reader` is told
/// the texts on the way, where the build asks for them.
pub fn compile(
    build: &Build<'_>,
    is_known: &mut dyn FnMut(&str) -> bool,
    reader: &mut dyn FnMut(BuildText, &str),
) -> BuildOutcome {
    if build.spec.configuration.original {
        return original::of(build);
    }
    run(build, is_known, reader).map_err(|error| {
        let status = if error.is_usage() { Status::InvalidConfig } else { Status::CompileError };
        let rejected = matches!(error, BuildError::Assemble { .. });
        NotBuilt {
            place: build.progress.and_then(BuildProgress::last),
            rejected,
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
    let header = &inputs.recorded.moments.prologue.header;
    let kernel = &inputs.recorded.kernel;
    let launches: Vec<&[u64]> = kernel.instances.values().map(|instance| instance.args.as_slice()).collect();
    let mut compiled = inputs.recorded.instance.ours.compiled.clone();
    if let (Some(application), true) = (&mut compiled, replacement.is_some()) {
        // Other code says for itself what may be fused.
        application.contract.clear();
    }
    let mut request = BuildRequest::new(code, &kernel.kernel_name, build.target, &spec.configuration);
    request.recorded = RecordedLaunch {
        arguments: &header.arguments,
        variables: &header.variables,
        allocations: &header.allocations,
        launches: &launches,
        signature: &kernel.ours.arguments,
        compiled: compiled.as_ref(),
    };
    let before = inputs.keep.before || spec.probe.before;
    request.keep = Keep {
        before,
        pipeline: spec.probe.expanded,
        until: spec.probe.until,
        after: inputs.keep.after || spec.keep_ir,
        isa: inputs.keep.isa,
    };
    request.external = inputs.external;
    request.instrument = spec.instrument;
    request.progress = build.progress;
    let (mut passes, mut codegen) = spec.probe.observers();
    let mut inventory = Inventory::default();
    let mut revise = |module: &Module<'_>| {
        for revision in &spec.probe.revisions {
            inventory = revise::revise(module, &kernel.kernel_name, *revision)?;
        }
        Ok(())
    };
    let hooks = Hooks {
        observer: Some(&mut passes),
        revise: Some(&mut revise),
        codegen: Some(&mut codegen),
        is_known: Some(is_known),
        reader: build.tells_texts().then_some(reader),
    };
    let artifact = mneme_compiler::build_with(&request, hooks)?;
    let built = Built {
        entry: artifact.entry,
        preprocess: artifact.times.read + artifact.times.specialise,
        optimise: artifact.times.optimise,
        codegen: artifact.times.codegen + artifact.times.assemble,
        shared_is_static: artifact.shared_is_static,
        assembler: artifact.assembler,
        spills: artifact.spills,
        texts: BuildTexts { ir_before: artifact.ir_before, ir: artifact.ir, ptx: artifact.ptx, isa: artifact.isa },
        instrumented: artifact.instrumented,
        log: artifact.log,
        looked: spec.probe.looked(passes, codegen, artifact.pipeline, inventory),
    };
    Ok((built, artifact.image))
}
