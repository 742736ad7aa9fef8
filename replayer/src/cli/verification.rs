//! Options of the verification.

use clap::Args;
use mneme_model::tolerance::DataType;
use mneme_system::arguments::{ValueError, non_negative};

use crate::verify::tolerances::{ToleranceOption, ToleranceOptions};

/// How much replayed memory may differ.
#[derive(Args, Debug)]
pub struct VerificationOptions {
    /// Let a buffer, or all, differ: [BUFFER=]TYPE:THRESHOLD[:KIND[:NORM]], e.g. f32:1e-5:relative or
    /// argument:1=f64:1e-9:absolute:l2
    ///
    /// BUFFER is argument:N (the buffer that the N-th argument, from 0, points to), tag:NAME, variable:NAME or
    /// address:0x…; without it the tolerance is for all buffers that may hold TYPE. TYPE is u8, i8, … u64, i64, f16,
    /// f32 or f64; KIND absolute, relative or ulp (units in the last place); NORM none (every element by itself), l1,
    /// l2 or linf. BUFFER=exact requires equal bits, and BUFFER=ignore disables the comparison. May be given several
    /// times; a tolerance for one buffer overrides one for all.
    #[arg(long = "tolerance", value_name = "TOLERANCE", value_parser = ToleranceOption::parse)]
    pub tolerances: Vec<ToleranceOption>,

    /// Let float and double values differ by this much, relative to the recorded value
    #[arg(long, value_name = "R", value_parser = non_negative)]
    pub rtol: Option<f64>,

    /// Let float and double values differ by this much, absolutely
    #[arg(long, value_name = "A", value_parser = non_negative)]
    pub atol: Option<f64>,

    /// The type of all memory, for --rtol and --atol [default: by the kernel's parameter types]
    #[arg(long, value_name = "TYPE", value_parser = data_type)]
    pub dtype: Option<DataType>,
}

impl VerificationOptions {
    pub fn options(&self) -> ToleranceOptions {
        ToleranceOptions { tolerances: self.tolerances.clone(), rtol: self.rtol, atol: self.atol, dtype: self.dtype }
    }
}

fn data_type(text: &str) -> Result<DataType, ValueError> {
    let floats = [DataType::F16, DataType::F32, DataType::F64];
    floats.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| "it must be f16, f32 or f64".into())
}
