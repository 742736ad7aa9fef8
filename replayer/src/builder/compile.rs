//! One build, in whatever process: LLVM and the assembler on recorded or other code.

use mneme_compiler::Module;
use mneme_compiler::instrument::Instrument;
use mneme_compiler::pipeline::External;
use mneme_compiler::pipeline::revise::{self, Inventory};
use mneme_compiler::progress::Progress;
use mneme_compiler::{BuildError, Code, Hooks, Keep, Preloaded, Recorded, Request, Target, Text, Texts};
use mneme_core::configuration::Configuration;
use mneme_core::result::Status;

use super::{Built, Extras, NotBuilt, Outcome, Probe, original};
use crate::replacement::Replacement;
use crate::subject::Subject;

/// What to compile.
pub struct Order<'a> {
    pub subject: &'a Subject,
    pub modules: &'a [Vec<u8>],
    pub target: &'a Target,
    pub configuration: &'a Configuration,
    /// The recorded modules, read already; only for a configuration that prunes.
    pub preloaded: Option<&'a Preloaded>,
    /// Code in the recorded modules' place.
    pub replacement: Option<&'a Replacement>,
    /// The program that runs the pipeline.
    pub external: Option<&'a External>,
    pub keep: Keep,
    /// A build that fails tells the texts that it had come to.
    pub texts: bool,
    pub probe: &'a Probe,
    pub instrument: Option<Instrument>,
    /// How another builder of the same was ended by the assembler that is a library; this one does without it.
    pub lost: Option<&'a str>,
    /// Where to note what the build is at.
    pub progress: Option<&'a Progress>,
}

impl<'a> Order<'a> {
    /// A build with what the command line asks of all. Code that comes with the configuration is nearer than the command line's.
    #[allow(clippy::too_many_arguments, reason = "each is a part of the order, and there is one caller for each kind of process")]
    pub fn new(
        subject: &'a Subject,
        modules: &'a [Vec<u8>],
        extras: &'a Extras,
        target: &'a Target,
        configuration: &'a Configuration,
        own: Option<&'a Replacement>,
        keep_ir: bool,
        instrument: Option<Instrument>,
    ) -> Self {
        Self {
            subject,
            modules,
            target,
            configuration,
            preloaded: None,
            replacement: own.or(extras.replacement.as_ref()),
            external: extras.external.as_ref(),
            keep: Keep { after: extras.keep.after || keep_ir, ..extras.keep },
            texts: extras.texts || keep_ir,
            probe: Probe::usual(),
            instrument,
            lost: None,
            progress: None,
        }
    }
}

/// Compiles. Where `is_known` says of the PTX that an equal one has been assembled, there is no image. `reader` is told the texts on
/// the way, where the order asks for them.
pub fn compile(order: &Order<'_>, is_known: &mut dyn FnMut(&str) -> bool, reader: &mut dyn FnMut(Text, &str)) -> Outcome {
    if order.configuration.original {
        return original::of(order);
    }
    build(order, is_known, reader).map_err(|error| {
        let status = if error.is_usage() { Status::InvalidConfig } else { Status::CompileError };
        let rejected = matches!(error, BuildError::Assemble { .. });
        NotBuilt { place: order.progress.and_then(Progress::last), rejected, ..NotBuilt::new(status, error.to_string()) }
    })
}

fn build(
    order: &Order<'_>,
    is_known: &mut dyn FnMut(&str) -> bool,
    reader: &mut dyn FnMut(Text, &str),
) -> Result<(Built, Vec<u8>), BuildError> {
    let modules: Vec<&[u8]> = match order.replacement {
        Some(Replacement::Ir(bytes)) => vec![bytes],
        _ => order.modules.iter().map(Vec::as_slice).collect(),
    };
    let code = match (order.replacement, order.preloaded) {
        (Some(Replacement::Ptx(ptx)), _) => Code::Ptx(ptx),
        (Some(Replacement::Cubin(cubin)), _) => Code::Cubin(cubin),
        (None, Some(preloaded)) => Code::Loaded(preloaded),
        (None | Some(Replacement::Ir(_)), _) => Code::Ir(&modules),
    };
    let header = &order.subject.moments.prologue.header;
    let kernel = &order.subject.kernel;
    let launches: Vec<&[u64]> = kernel.instances.values().map(|instance| instance.args.as_slice()).collect();
    let mut compiled = order.subject.instance.ours.compiled.clone();
    if let (Some(application), true) = (&mut compiled, order.replacement.is_some()) {
        // Other code says for itself what may be fused.
        application.contract.clear();
    }
    let mut request = Request::new(code, &kernel.kernel_name, order.target, order.configuration);
    request.recorded = Recorded {
        arguments: &header.arguments,
        variables: &header.variables,
        allocations: &header.allocations,
        launches: &launches,
        signature: &kernel.ours.arguments,
        compiled: compiled.as_ref(),
    };
    let before = order.keep.before || order.probe.before;
    request.keep = Keep { before, pipeline: order.probe.expanded, until: order.probe.until, ..order.keep };
    request.external = order.external;
    request.instrument = order.instrument;
    request.progress = order.progress;
    let (mut passes, mut codegen) = order.probe.observers();
    let mut inventory = Inventory::default();
    let mut revise = |module: &Module<'_>| {
        for revision in &order.probe.revisions {
            inventory = revise::revise(module, &kernel.kernel_name, *revision)?;
        }
        Ok(())
    };
    let hooks = Hooks {
        observer: Some(&mut passes),
        revise: Some(&mut revise),
        codegen: Some(&mut codegen),
        is_known: Some(is_known),
        reader: order.texts.then_some(reader),
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
        texts: Texts { ir_before: artifact.ir_before, ir: artifact.ir, ptx: artifact.ptx },
        instrumented: artifact.instrumented,
        log: artifact.log,
        looked: order.probe.looked(passes, codegen, artifact.pipeline, inventory),
    };
    Ok((built, artifact.image))
}
