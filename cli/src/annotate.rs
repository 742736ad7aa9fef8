//! The command `mneme annotate`, which sets how the memory of recordings is compared.

use clap::Args;
use mneme_model::tolerance::{DataType, Norm, Threshold, Tolerance};
use mneme_recording::manifest::RecordedArgument;
use mneme_recording::rules::{RuleMemory, RuleRegion, RuleTarget, Rules, ToleranceRule};
use mneme_recording::{Moments, RecordingError};
use mneme_system::arguments::{ValueError, non_negative};

use crate::error::CommandError;
use crate::output::print;
use crate::selection::{KernelFile, Selection};

#[derive(Debug, Args)]
pub struct AnnotateOptions {
    #[command(flatten)]
    selection: Selection,
    /// Allocations with this tag from the application
    #[arg(long, group = "target", value_name = "NAME")]
    tag: Option<String>,
    /// The device variable with this mangled name
    #[arg(long, group = "target", value_name = "NAME")]
    variable: Option<String>,
    /// The memory to which this argument of the kernel points, counted from 0
    #[arg(long, group = "target", value_name = "INDEX")]
    argument: Option<u32>,
    /// The memory that contains this recorded address, see mneme show
    #[arg(long, group = "target", value_name = "0xADDRESS", value_parser = address)]
    address: Option<u64>,
    /// Only a range that begins this many bytes after the start of the memory, or after where the argument or address
    /// points
    #[arg(long, requires = "bytes", value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    offset: u64,
    /// Only this many bytes
    #[arg(long, requires = "target", value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    bytes: Option<u64>,
    /// Type of the memory: u8, i8, u16, i16, u32, i32, u64, i64, f16, f32 or f64
    #[arg(long, requires = "target", value_name = "TYPE", value_parser = dtype)]
    dtype: Option<DataType>,
    /// Largest |replayed - recorded|
    #[arg(long, group = "threshold", requires = "target", value_name = "ERROR", value_parser = non_negative)]
    absolute: Option<f64>,
    /// Largest |replayed - recorded| / |recorded|
    #[arg(long, group = "threshold", requires = "target", value_name = "ERROR", value_parser = non_negative)]
    relative: Option<f64>,
    /// Largest distance in representable values
    #[arg(long, group = "threshold", requires = "target", value_name = "COUNT", value_parser = non_negative)]
    ulp: Option<f64>,
    /// Bound the norm of all errors instead of each error: none, l1, l2 or linf
    #[arg(long, requires = "threshold", value_name = "NORM", value_parser = norm)]
    norm: Option<Norm>,
    /// Do not compare this memory
    #[arg(long, group = "threshold", requires = "target")]
    ignore: bool,
    /// Remove the rule for this memory
    #[arg(long, group = "threshold", requires = "target")]
    remove: bool,
}

fn address(text: &str) -> Result<u64, ValueError> {
    let digits = text.strip_prefix("0x").ok_or("it must begin with 0x")?;
    u64::from_str_radix(digits, 16).map_err(|_| "it is not a hexadecimal number".into())
}

fn dtype(text: &str) -> Result<DataType, ValueError> {
    DataType::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| "there is no such type".into())
}

fn norm(text: &str) -> Result<Norm, ValueError> {
    Norm::ALL.into_iter().find(|norm| norm.name() == text).ok_or_else(|| "it must be none, l1, l2 or linf".into())
}

impl AnnotateOptions {
    fn memory(&self) -> Option<RuleMemory> {
        let tag = self.tag.clone().map(RuleTarget::Tag);
        let variable = self.variable.clone().map(RuleTarget::Variable);
        let target = tag.or(variable).or(self.argument.map(RuleTarget::Argument));
        let target = target.or(self.address.map(RuleTarget::Address))?;
        Some(RuleMemory { target, offset: self.offset, bytes: self.bytes })
    }

    fn tolerance(&self) -> Result<Tolerance, CommandError> {
        if self.ignore {
            return Ok(Tolerance::ignored());
        }
        let thresholds =
            [(self.absolute, Threshold::Absolute), (self.relative, Threshold::Relative), (self.ulp, Threshold::Ulp)];
        let found = thresholds.into_iter().find_map(|(value, kind)| Some((value?, kind)));
        let (threshold, kind) = found.ok_or_else(|| {
            CommandError::Usage("name the allowed difference: --absolute, --relative, --ulp or --ignore".into())
        })?;
        let dtype =
            self.dtype.ok_or_else(|| CommandError::Usage("name the type of the memory, such as --dtype f64".into()))?;
        Ok(Tolerance { dtype, threshold, kind, norm: self.norm.unwrap_or_default(), ignore: false })
    }
}

/// Whether an instance of a kernel has memory that a rule would be for.
fn has(kernel: &KernelFile, memory: &RuleMemory) -> Result<bool, RecordingError> {
    for instance in kernel.record.instances.values() {
        let prologue = Moments::open(kernel.folder(), &kernel.record, instance)?.prologue;
        let value = |argument: &RecordedArgument| Some(u64::from_le_bytes(argument.bytes.as_slice().try_into().ok()?));
        let arguments: Vec<Option<u64>> = prologue.header.arguments.iter().map(value).collect();
        if prologue.regions().any(|region| memory.names(&RuleRegion::from(&region), &arguments)) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn run(options: &AnnotateOptions) -> Result<(), CommandError> {
    options.selection.refuse_unnamed()?;
    let mut selected = options.selection.some_kernels()?;
    if let Some(memory) = options.memory().filter(|_| !options.remove) {
        let found = selected.kernels.iter().map(|kernel| has(kernel, &memory)).collect::<Result<Vec<_>, _>>()?;
        if !found.contains(&true) {
            return Err(CommandError::Usage(format!(
                "{memory} matches no recorded memory; for pointer arguments, variables and allocations, see mneme show"
            )));
        }
        // In a folder, the rule is for the kernels that have such memory.
        let mut found = found.into_iter();
        selected.kernels.retain(|_| found.next() == Some(true));
    }
    let mut text = String::new();
    for kernel in &selected.kernels {
        let mut rules = Rules::load(&kernel.path)?;
        if let Some(memory) = options.memory() {
            if options.remove {
                if !rules.remove(&memory) {
                    return Err(CommandError::Usage(format!(
                        "{} has no rule for {memory}",
                        Rules::path(&kernel.path).display()
                    )));
                }
            } else {
                rules.set(ToleranceRule { memory, tolerance: options.tolerance()? });
            }
            rules.save(&kernel.path)?;
        }
        text += &format!("{}\n", kernel.record.demangled_name);
        for rule in &rules.rules {
            text += &format!("  {}: {}\n", rule.memory, rule.tolerance);
        }
        if rules.rules.is_empty() {
            text += "  no rules: memory is compared byte by byte, and annotated buffers as the application specified\n";
        }
    }
    print(&text)?;
    selected.complete()
}
