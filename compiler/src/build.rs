//! Builds: recorded code, by way of IR or not, to a code object.

use std::borrow::Cow;
use std::time::Instant;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use llvm_sys::target_machine::LLVMCodeGenFileType;
use mneme_builds::instrument::Instrument;
use mneme_builds::progress::Stage;
use mneme_builds::spec::FAULT;
use mneme_builds::{BuildText, ImageKind, Target};
use mneme_image::{code_object, cubin, ptx as ptx_image};
use mneme_model::architecture::Processor;
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::{Configuration, Field};
use mneme_model::launch::Dim3;
use mneme_ptx::names::{self, NamedAddress};

use crate::architecture::CodegenArchitecture;
use crate::assembler::{Assembler, AssemblerOptions};
use crate::error::{BuildError, RevisionError};
use crate::ir::diagnostics::Diagnostics;
use crate::llvm::PassGate;
use crate::pipeline::{CodegenInvocations, PassObserver, ProgressObserver};
use crate::request::{Artifact, BuildRequest, BuildTimes, InputCode};
use crate::version::llvm_version;
use crate::{code_version, cpu, instrument, ir, lifting, linker, llvm, pipeline, prepare, signature};

/// Builds the kernel of `request` into a code object.
///
/// `llvm_options` are set for the whole process, so a configuration that has some needs a separate process.
pub fn build(request: &BuildRequest<'_>) -> Result<Artifact, BuildError> {
    build_with(request, Hooks::default())
}

/// A change to a module.
pub type Revise<'a> = &'a mut dyn FnMut(&Module<'_>) -> Result<(), RevisionError>;

/// Receives a text of a build.
pub type TextReader<'a> = &'a mut dyn FnMut(BuildText, &str);

/// Callbacks during a build.
#[derive(Default)]
pub struct Hooks<'a> {
    /// Observes the passes (see [`pipeline::Invocations`]), except those that run in another program.
    pub observer: Option<&'a mut dyn PassObserver>,
    /// Changes the IR before the pipeline, see [`pipeline::revise`], or returns why it cannot.
    pub revise: Option<Revise<'a>>,
    /// Observes the passes of code generation.
    pub codegen: Option<&'a mut CodegenInvocations>,
    /// Whether equal PTX was assembled before, with equal options. The artifact then comes without an image.
    pub is_known: Option<&'a mut dyn FnMut(&str) -> bool>,
    /// Receives the build's texts as soon as they exist, because a build that fails has no artifact.
    pub reader: Option<TextReader<'a>>,
}

impl Hooks<'_> {
    fn read_text(&mut self, text: BuildText, contents: Option<&str>) {
        if let (Some(reader), Some(contents)) = (&mut self.reader, contents) {
            reader(text, contents);
        }
    }
}

/// [`build`], with hooks.
pub fn build_with(request: &BuildRequest<'_>, mut hooks: Hooks<'_>) -> Result<Artifact, BuildError> {
    request.configuration.check()?;
    let artifact = match request.code {
        InputCode::Ir(modules) => {
            let context = Context::create();
            let diagnostics = Diagnostics::collect(&context);
            let clock = start(request, Stage::Read);
            let module = ir::read::load(&context, &diagnostics, modules, request.has_lines())?;
            build_ir(request, &context, &diagnostics, Source::of(module, clock), &mut hooks)
        }
        InputCode::Loaded(preloaded) => {
            let (context, module) = preloaded.take()?;
            let diagnostics = Diagnostics::collect(context);
            build_ir(request, context, &diagnostics, Source { module, read: 0.0, lifted: None }, &mut hooks)
        }
        InputCode::Ptx(ptx) => match needs_ir(request) {
            Some(field) => build_lifted(request, ptx, field, &mut hooks),
            None => build_ptx(request, ptx, &mut hooks),
        },
        InputCode::Cubin(cubin) => build_cubin(request, cubin),
    }?;
    start(request, Stage::Done);
    Ok(artifact)
}

/// The module with which a pipeline starts.
struct Source<'ctx, 'a> {
    module: Module<'ctx>,
    /// Seconds.
    read: f64,
    /// The properties of the PTX, if the module was lifted from PTX.
    lifted: Option<&'a mneme_ptx::Lifted>,
}

impl<'ctx> Source<'ctx, '_> {
    fn of(module: Module<'ctx>, clock: Instant) -> Self {
        Self { module, read: clock.elapsed().as_secs_f64(), lifted: None }
    }
}

/// Builds PTX through lifted IR, which `field` needs.
fn build_lifted(
    request: &BuildRequest<'_>,
    text: &str,
    field: &'static str,
    hooks: &mut Hooks<'_>,
) -> Result<Artifact, BuildError> {
    let clock = start(request, Stage::Read);
    let mut text = Cow::from(text.trim_end_matches('\0'));
    if request.configuration.unfused {
        text = mneme_ptx::unfused(&text).into();
    }
    let lifted = mneme_ptx::lift(&text).map_err(|error| BuildError::lift(field, error))?;
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = lifted_module(&context, &diagnostics, &lifted, request.has_lines(), field)?;
    let mut source = Source::of(module, clock);
    source.lifted = Some(&lifted);
    let mut artifact = build_ir(request, &context, &diagnostics, source, hooks)?;
    artifact.lifted = true;
    artifact.log.push(format!(
        "lifted from PTX: {} instructions, of which {} stay inline assembly",
        lifted.statistics.instructions,
        lifted.statistics.in_assembly()
    ));
    Ok(artifact)
}

fn build_ir<'ctx>(
    request: &BuildRequest<'_>,
    context: &'ctx Context,
    diagnostics: &Diagnostics<'_>,
    source: Source<'ctx, '_>,
    hooks: &mut Hooks<'_>,
) -> Result<Artifact, BuildError> {
    let Source { module, read, lifted } = source;
    let configuration = request.configuration;
    let own_options = request.recorded.compiled.map_or(&[][..], |application| &application.llvm_options);
    for options in [own_options, &configuration.llvm_options] {
        llvm::set_options(options)?;
    }
    let clock = start(request, Stage::Specialise);
    let mut architecture = CodegenArchitecture::of(request.target, &module)?;
    if matches!(request.target, Target::Amdgpu { .. }) {
        refuse_foreign_fields(request)?;
        code_version::check(&module)?;
    }
    if let Some(fuses) = request.recorded.compiled.and_then(CompileOptions::fuses) {
        architecture.fuses = fuses;
    }
    if let Some(lifted) = lifted {
        // The lifted operations say one by one whether they may be fused.
        architecture.fuses = false;
        architecture.device = lifted.device(&architecture.device);
    }
    let machine = architecture.machine(configuration.codegen_opt)?;
    if lifted.is_some() {
        let mut nobody = ProgressObserver { progress: None, other: None };
        pipeline::run(&module, lifting::CLEANUP, &machine, diagnostics, &mut nobody, false)?;
    }
    if matches!(request.target, Target::Cpu { .. }) {
        cpu::library::cut(&module);
    }
    let mut specialised = prepare::specialise(&module, request, &architecture, &machine)?;
    let specialise = clock.elapsed().as_secs_f64();
    if let Some(revise) = hooks.revise.take() {
        revise(&module)?;
    }
    if request.instrument.is_none() {
        // The revision has told them.
        module.strip_debug_info();
    }
    let begun = request
        .instrument
        .map(|instrument| instrument::before(&module, request.kernel, instrument, &machine))
        .transpose()?;
    let ir_before = request.keep.before.then(|| ir::text(&module));
    hooks.read_text(BuildText::IrBefore, ir_before.as_deref());
    let pipeline = request.keep.pipeline.then(|| pipeline::expand(&configuration.passes, &machine)).flatten();

    let (module, optimise) = match request.external {
        Some(external) => {
            let clock = start(request, Stage::External);
            (pipeline::external::run(external, context, &module, &configuration.passes, diagnostics)?, clock)
        }
        None => {
            let clock = start(request, Stage::Pipeline);
            let mut observer = ProgressObserver { progress: request.progress, other: hooks.observer.take() };
            let instrument = !configuration.llvm_options.is_empty();
            pipeline::run(&module, &configuration.passes, &machine, diagnostics, &mut observer, instrument)?;
            (module, clock)
        }
    };
    let kernel = ir::kernel(&module, request.kernel)?;
    let is_ptx = matches!(request.target, Target::Nvptx { .. });
    let named = specialised.variables.put(&module, kernel, configuration.prune, is_ptx, &machine)?;
    let optimise = optimise.elapsed().as_secs_f64();
    let ir = request.keep.after.then(|| ir::text(&module));
    hooks.read_text(BuildText::Ir, ir.as_deref());
    let instrumented = request
        .instrument
        .zip(begun)
        .map(|(instrument, begun)| instrument::after(&module, instrument, begun, &machine))
        .transpose()?;

    if request.keep.until == Some(Stage::Pipeline) {
        let image = artifact(request, Vec::new(), ImageKind::CpuObject, None, String::new());
        return Ok(Artifact { ir_before, ir, pipeline, ..image });
    }
    let clock = start(request, Stage::CodeGeneration);
    let mut invocations = hooks.codegen.take();
    let mut ask = |pass: &str, unit: &str| {
        let (number, run) = invocations.as_mut().map_or((0, true), |invocations| invocations.ask(pass, unit));
        if let Some(progress) = request.progress.filter(|_| run) {
            progress.pass(number, pass, unit);
        }
        run
    };
    let mut artifact = match request.target {
        Target::Nvptx { .. } => {
            let ptx = emit_ptx(&module, &machine, &architecture, &named, diagnostics, &mut ask)?;
            let ptx = lifted.map_or(ptx.clone(), |lifted| lifted.finish(&ptx));
            let codegen = clock.elapsed().as_secs_f64();
            let mut artifact = assemble(request, ptx, &architecture.device, request.assembler_options(0), hooks)?;
            artifact.times.codegen = codegen;
            artifact
        }
        Target::Amdgpu { .. } => {
            #[cfg(feature = "planted-faults")]
            crate::own_ir::embed(&module);
            let (object, isa) = emit_object(request, &module, &machine, &architecture, diagnostics, &mut ask)?;
            let codegen = clock.elapsed().as_secs_f64();
            hooks.read_text(BuildText::Isa, isa.as_deref());
            let mut artifact = link_code(request, &object)?;
            (artifact.times.codegen, artifact.isa) = (codegen, isa);
            artifact
        }
        Target::Cpu { .. } => {
            let options = cpu::LowerOptions::of_program(configuration.codegen_opt, request.recorded.compiled);
            let image = cpu::lower(module, &options, &mut ask)?;
            let mut artifact = artifact(request, image, ImageKind::CpuObject, None, maker(request.target));
            artifact.times.codegen = clock.elapsed().as_secs_f64();
            artifact
        }
    };
    artifact.times = BuildTimes { read, specialise, optimise, ..artifact.times };
    artifact.instrumented = instrumented;
    (artifact.ir_before, artifact.ir, artifact.pipeline) = (ir_before, ir, pipeline);
    artifact.shared_is_static = specialised.shared_is_static;
    artifact.log.append(&mut specialised.log);
    artifact.log.append(&mut diagnostics.remarks());
    if cfg!(feature = "planted-faults") && configuration.passes.contains(FAULT) {
        artifact.log.push(format!("the pipeline plants a fault on purpose: {}", FAULT));
    }
    Ok(artifact)
}

fn build_ptx(request: &BuildRequest<'_>, ptx: &str, hooks: &mut Hooks<'_>) -> Result<Artifact, BuildError> {
    const CODE: &str = "PTX";
    let arch = gpu(request, CODE)?;
    let module = ptx_image::PtxModule::parse(ptx);
    let parameters = module.parameters(request.kernel).ok_or_else(|| BuildError::NoKernel {
        code: CODE,
        kernel: request.kernel.into(),
        found: module.kernels().map(str::to_owned).collect(),
    })?;
    check_signature(request, &parameters)?;
    let options = request.assembler_options(request.configuration.maxnreg);
    assemble(request, ptx.trim_end_matches('\0').to_owned(), arch, options, hooks)
}

fn build_cubin(request: &BuildRequest<'_>, cubin: &[u8]) -> Result<Artifact, BuildError> {
    const CODE: &str = "machine code";
    if code_object::is_code_object(cubin) {
        return build_code_object(request, cubin);
    }
    gpu(request, CODE)?;
    refuse_ir_fields(request, CODE)?;
    refuse_assembly_fields(request, CODE)?;
    let kernels = cubin::parse(cubin).map(|cubin| cubin.kernels).unwrap_or_default();
    let kernel = kernels.iter().find(|kernel| kernel.name == request.kernel).ok_or_else(|| BuildError::NoKernel {
        code: CODE,
        kernel: request.kernel.into(),
        found: kernels.iter().map(|kernel| kernel.name.clone()).collect(),
    })?;
    // Machine code may lack the parameters' layout.
    if !kernel.parameters.is_empty() {
        check_signature(request, &kernel.parameters)?;
    }
    Ok(artifact(request, cubin.to_vec(), ImageKind::Cubin, None, "none: machine code as given".into()))
}

/// Passes on the machine code of an AMD GPU.
fn build_code_object(request: &BuildRequest<'_>, image: &[u8]) -> Result<Artifact, BuildError> {
    const CODE: &str = "machine code";
    let refused = |message: String| Err(BuildError::Configuration { message });
    refuse_ir_fields(request, CODE)?;
    refuse_assembly_fields(request, CODE)?;
    let Some(object) = code_object::parse(image) else {
        return refused("the code object is damaged, or of a version before 4".into());
    };
    match request.target {
        Target::Cpu { .. } => gpu(request, CODE).map(|_| ())?,
        Target::Nvptx { arch } | Target::Amdgpu { arch } => {
            let fits = Processor::parse(arch).is_some_and(|device| object.processor.machine_code_runs_on(&device));
            if !fits {
                return refused(format!("the machine code is for {} and the device is {arch}", object.processor));
            }
        }
    }
    let kernel =
        object.kernels.iter().find(|kernel| kernel.name == request.kernel).ok_or_else(|| BuildError::NoKernel {
            code: CODE,
            kernel: request.kernel.into(),
            found: object.kernels.iter().map(|kernel| kernel.name.clone()).collect(),
        })?;
    let parameters: Vec<(u32, u32)> = kernel.explicit().map(|argument| (argument.offset, argument.size)).collect();
    check_signature(request, &parameters)?;
    Ok(artifact(request, image.to_vec(), ImageKind::CodeObject, None, "none: machine code as given".into()))
}

/// Refuses fields that only an assembler can implement.
fn refuse_assembly_fields(request: &BuildRequest<'_>, code: &'static str) -> Result<(), BuildError> {
    let changed = request.configuration.differences(&request.as_recorded()).find(|field| field.reaches_assembler);
    changed.map_or(Ok(()), |field| Err(BuildError::NeedsIr { code, field: field.name }))
}

/// Checks the parameters of code from elsewhere, which is launched with the recorded parameter buffer. `found` are
/// offsets and sizes in bytes.
fn check_signature(request: &BuildRequest<'_>, found: &[(u32, u32)]) -> Result<(), BuildError> {
    if request.recorded.signature.is_empty() {
        return Ok(());
    }
    let sizes: Vec<u32> = found.iter().map(|(_, size)| *size).collect();
    signature::check(request.kernel, request.recorded.signature, &sizes)
}

/// The GPU architecture for code other than IR.
fn gpu<'a>(request: &BuildRequest<'a>, code: &'static str) -> Result<&'a str, BuildError> {
    match request.target {
        Target::Nvptx { arch } => Ok(arch),
        Target::Amdgpu { arch } => Err(BuildError::Configuration {
            message: format!(
                "the kernel's code is {code} for NVIDIA GPUs and the device is {arch}, one of AMD's; \
                 build the program with mneme-cc for it"
            ),
        }),
        Target::Cpu { .. } => Err(BuildError::Configuration {
            message: format!(
                "the CPU device runs LLVM IR, and the kernel's code is {code}; replay it on a GPU, or build the program with mneme-cc"
            ),
        }),
    }
}

/// Refuses fields that only NVIDIA GPUs support, or that are not implemented for AMD GPUs.
fn refuse_foreign_fields(request: &BuildRequest<'_>) -> Result<(), BuildError> {
    for (field, set) in [
        ("ptxas_options", request.configuration.ptxas_options.as_ref().is_some_and(|words| !words.is_empty())),
        ("looking for faults (--check)", request.instrument == Some(Instrument::Faults)),
        ("watching writes (--wrote)", request.instrument == Some(Instrument::Writes)),
        ("telling what is touched (--touched)", request.instrument == Some(Instrument::Touched)),
    ] {
        if set {
            let device = request.target.arch();
            let remedy = if request.instrument.is_some() { "use --device cpu for it" } else { "leave it out" };
            return Err(BuildError::Configuration {
                message: format!("{field} is not available for AMD GPUs, and the device is {device}; {remedy}"),
            });
        }
    }
    Ok(())
}

/// Refuses fields that need IR.
fn refuse_ir_fields(request: &BuildRequest<'_>, code: &'static str) -> Result<(), BuildError> {
    needs_ir(request).map_or(Ok(()), |field| Err(BuildError::NeedsIr { code, field }))
}

/// The CPU device, in messages about what needs IR.
const CPU_DEVICE: &str = "the CPU device";

/// The first field that needs IR, or the CPU device, which needs it always.
fn needs_ir(request: &BuildRequest<'_>) -> Option<&'static str> {
    let configuration = request.configuration.grounded();
    let plain = Configuration::default();
    // The default pipeline and level do not count as changes, whatever the application's are; neither do the
    // application's own.
    let is_usual = |field: &Field| match field.name {
        "passes" => ["", &plain.passes].contains(&configuration.passes.trim()),
        "codegen_opt" => configuration.codegen_opt == plain.codegen_opt,
        _ => false,
    };
    let mut changed = configuration.differences(&request.as_recorded()).filter(|field| field.needs_ir);
    if let Some(field) = changed.find(|field| !is_usual(field)) {
        return Some(field.name);
    }
    let others = [
        ("passes", request.external.is_some()),
        ("looking for faults", request.instrument == Some(Instrument::Faults)),
        ("watching writes", request.instrument == Some(Instrument::Writes)),
        ("telling what is touched", request.instrument == Some(Instrument::Touched)),
        (CPU_DEVICE, matches!(request.target, Target::Cpu { .. })),
    ];
    others.into_iter().find(|(_, set)| *set).map(|(field, _)| field)
}

fn assemble(
    request: &BuildRequest<'_>,
    ptx: String,
    device: &str,
    options: AssemblerOptions<'_>,
    hooks: &mut Hooks<'_>,
) -> Result<Artifact, BuildError> {
    hooks.read_text(BuildText::Ptx, Some(&ptx));
    if request.keep.until == Some(Stage::CodeGeneration)
        || hooks.is_known.as_mut().is_some_and(|is_known| is_known(&ptx))
    {
        return Ok(artifact(request, Vec::new(), ImageKind::Cubin, Some(ptx), String::new()));
    }
    let clock = start(request, Stage::Assembly);
    let assembled = Assembler::find().assemble(&ptx, request.kernel, device, options)?;
    let mut artifact = artifact(request, assembled.image, assembled.kind, Some(ptx), assembled.assembler);
    artifact.times.assemble = clock.elapsed().as_secs_f64();
    artifact.spills = assembled.spills;
    Ok(artifact)
}

fn artifact(
    request: &BuildRequest<'_>,
    image: Vec<u8>,
    kind: ImageKind,
    ptx: Option<String>,
    assembler: String,
) -> Artifact {
    Artifact {
        image,
        kind,
        entry: request.kernel.to_owned(),
        shared_is_static: false,
        lifted: false,
        ptx,
        isa: None,
        ir_before: None,
        ir: None,
        pipeline: None,
        times: BuildTimes::default(),
        spills: None,
        assembler,
        instrumented: None,
        log: Vec::new(),
    }
}

/// Records that a stage begins.
fn start(request: &BuildRequest<'_>, stage: Stage) -> Instant {
    if let Some(progress) = request.progress {
        progress.stage(stage);
    }
    Instant::now()
}

/// Links modules of IR into one, and returns its bitcode.
pub fn link(modules: &[&[u8]]) -> Result<Vec<u8>, BuildError> {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = ir::read::load(&context, &diagnostics, modules, false)?;
    Ok(module.write_bitcode_to_memory().as_slice().to_vec())
}

/// Builds all kernels of the linked `modules` into one object for the CPU device, as an application's own code: without
/// recorded values, and without dropping anything. `arch` is the GPU architecture for which the pipeline runs.
///
/// Code with known compile options (`compiled`) is compiled with them, in the same steps as in a replay without other
/// settings, so its results are those of the application bit for bit. `passes` replace those of its level.
pub fn build_cpu_object(
    modules: &[&[u8]],
    arch: &str,
    compiled: Option<&CompileOptions>,
    passes: Option<&str>,
) -> Result<Vec<u8>, BuildError> {
    let unit = Dim3::new(1, 1, 1);
    let mut configuration = Configuration::recorded(unit, unit, 0);
    if let Some(application) = compiled {
        configuration = configuration.compiled_as(application);
        // An option that this LLVM lacks must not keep the program from running. A replay reports it.
        for option in application.llvm_options.chunks(1) {
            let _ = llvm::set_options(option);
        }
    }
    configuration.passes = passes.map_or(configuration.passes, str::to_owned);
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let whole = match modules {
        [one] if ptx_image::is_ptx(one) => Some(
            mneme_ptx::lift_program(&String::from_utf8_lossy(one))
                .map_err(|error| BuildError::lift(CPU_DEVICE, error))?,
        ),
        _ => None,
    };
    let module = match &whole {
        Some((lifted, _)) => lifted_module(&context, &diagnostics, lifted, false, CPU_DEVICE)?,
        None => ir::read::load(&context, &diagnostics, modules, false)?,
    };
    let mut architecture = CodegenArchitecture::for_cpu(arch, &module)?;
    if let Some(fuses) = compiled.and_then(CompileOptions::fuses) {
        architecture.fuses = fuses;
    }
    architecture.fuses &= whole.is_none();
    let machine = architecture.machine(configuration.codegen_opt)?;
    let mut nobody = ProgressObserver { progress: None, other: None };
    if whole.is_some() {
        pipeline::run(&module, lifting::CLEANUP, &machine, &diagnostics, &mut nobody, false)?;
    }
    prepare::whole(&module, &architecture, compiled, &configuration.passes);
    cpu::library::cut(&module);
    pipeline::run(&module, &configuration.passes, &machine, &diagnostics, &mut nobody, false)?;
    let refused = whole.map(|(_, refused)| lifting::refusals(refused)).unwrap_or_default();
    let options = cpu::LowerOptions::of_program(configuration.codegen_opt, compiled);
    Ok(cpu::lower_part(module, &options, refused, &mut |_, _| true)?)
}

/// Makes a module from lifted PTX, which `field` needs, and lets LLVM verify it. `debug` keeps the PTX's source
/// locations.
fn lifted_module<'ctx>(
    context: &'ctx Context,
    diagnostics: &Diagnostics<'_>,
    lifted: &mneme_ptx::Lifted,
    debug: bool,
    field: &'static str,
) -> Result<Module<'ctx>, BuildError> {
    let refused =
        |error: &dyn std::fmt::Display| BuildError::lift(field, format_args!("LLVM rejects the lifted IR: {error}"));
    let module =
        ir::read::load(context, diagnostics, &[lifted.ir.as_bytes()], debug).map_err(|error| refused(&error))?;
    module.verify().map_err(|error| refused(&error))?;
    Ok(module)
}

/// The name, version and mode of the tool that makes machine code for a target in this process.
pub fn maker(target: &Target) -> String {
    match target {
        Target::Nvptx { .. } => Assembler::find().name(),
        Target::Amdgpu { .. } => linker::name(),
        Target::Cpu { .. } => {
            format!("LLVM {}, stores in step: {}", llvm_version(), cpu::Lockstep::from_environment().name())
        }
    }
}

/// The relocatable object, and its instructions as text if the request keeps them.
fn emit_object(
    request: &BuildRequest<'_>,
    module: &Module<'_>,
    machine: &TargetMachine,
    architecture: &CodegenArchitecture,
    diagnostics: &Diagnostics<'_>,
    gate: PassGate<'_>,
) -> Result<(Vec<u8>, Option<String>), BuildError> {
    let failed = |message: String| BuildError::Codegen { target: architecture.cpu.clone(), message };
    // Code generation consumes the module.
    let copy = request.keep.isa.then(|| module.clone());
    let mut ran: Vec<bool> = Vec::new();
    let mut noted = |pass: &str, unit: &str| {
        ran.push(gate(pass, unit));
        ran[ran.len() - 1]
    };
    let object = llvm::emit(module, machine, LLVMCodeGenFileType::LLVMObjectFile, &mut noted)
        .map_err(|error| failed(error.0))?;
    if let Some(message) = diagnostics.take() {
        return Err(failed(message));
    }
    // The same passes as for the object.
    let mut answers = ran.into_iter();
    let mut again = |_: &str, _: &str| answers.next().unwrap_or(true);
    let isa = copy
        .map(|copy| llvm::emit(&copy, machine, LLVMCodeGenFileType::LLVMAssemblyFile, &mut again))
        .transpose()
        .map_err(|error| failed(error.0))?;
    Ok((object, isa.map(|text| String::from_utf8_lossy(&text).into_owned())))
}

/// Links a relocatable object to a code object.
fn link_code(request: &BuildRequest<'_>, object: &[u8]) -> Result<Artifact, BuildError> {
    if request.keep.until == Some(Stage::CodeGeneration) {
        return Ok(artifact(request, Vec::new(), ImageKind::CodeObject, None, String::new()));
    }
    let clock = start(request, Stage::Assembly);
    let image = linker::link(object)?;
    let configuration = request.configuration;
    if configuration.maxnreg > 0 {
        check_registers(&image, request.kernel, configuration.maxnreg)?;
    }
    let mut artifact = artifact(request, image, ImageKind::CodeObject, None, maker(request.target));
    artifact.times.assemble = clock.elapsed().as_secs_f64();
    Ok(artifact)
}

/// Checks that the code respects the limit of registers, because LLVM ignores a limit that it cannot meet.
fn check_registers(image: &[u8], kernel: &str, limit: u32) -> Result<(), BuildError> {
    let kernels = code_object::parse(image).map(|code| code.kernels).unwrap_or_default();
    match kernels.iter().find(|found| found.name == kernel) {
        Some(found) if found.vgprs > limit => Err(BuildError::Configuration {
            message: format!(
                "maxnreg is {limit}, but LLVM cannot make the code with fewer than {} vector registers",
                found.vgprs
            ),
        }),
        _ => Ok(()),
    }
}

fn emit_ptx(
    module: &Module<'_>,
    machine: &TargetMachine,
    architecture: &CodegenArchitecture,
    variables: &[NamedAddress],
    diagnostics: &Diagnostics<'_>,
    gate: PassGate<'_>,
) -> Result<String, BuildError> {
    let failed = |message: String| BuildError::Codegen { target: architecture.cpu.clone(), message };
    let code =
        llvm::emit(module, machine, LLVMCodeGenFileType::LLVMAssemblyFile, gate).map_err(|error| failed(error.0))?;
    if let Some(message) = diagnostics.take() {
        return Err(failed(message));
    }
    #[cfg_attr(not(feature = "planted-faults"), expect(unused_mut, reason = "a fault is marked in it"))]
    let mut ptx = names::resolve(&String::from_utf8_lossy(&code), variables);
    #[cfg(feature = "planted-faults")]
    if llvm::breaks_assembly(module) {
        crate::assembler::fault::mark(&mut ptx);
    }
    Ok(ptx)
}
