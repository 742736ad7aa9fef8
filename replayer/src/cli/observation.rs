//! Options of instrumented replays.

use clap::Args;
use mneme_model::observation::Observe;
use mneme_system::arguments::ValueError;

#[derive(Args, Clone, Debug, Default)]
pub struct ObservationOptions {
    /// Look for accesses out of bounds, to uninitialised memory, unordered ones (shared memory) or misaligned ones,
    /// instead of measuring; the exit status is 1 if there are any
    #[arg(long, conflicts_with_all = ["repeat", "dump_diff", "wrote"])]
    pub check: bool,
    /// Show which thread and which instruction wrote these bytes last (1 to 8; default 4)
    #[arg(long, value_name = "ADDRESS[:BYTES]", value_parser = watched, conflicts_with_all = ["repeat", "dump_diff"])]
    pub wrote: Option<Observe>,
    /// Show which recorded memory the kernel reads and writes, instead of measuring
    #[arg(long, conflicts_with_all = ["repeat", "dump_diff", "wrote", "check"])]
    pub touched: bool,
}

impl ObservationOptions {
    pub fn observe(&self) -> Option<Observe> {
        match self {
            Self { check: true, .. } => Some(Observe::Faults),
            Self { touched: true, .. } => Some(Observe::Touched),
            _ => self.wrote,
        }
    }
}

/// Reads `0x1000:8`.
fn watched(text: &str) -> Result<Observe, ValueError> {
    let (address, bytes) = text.split_once(':').unwrap_or((text, "4"));
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let address =
        number(address).ok_or_else(|| format!("'{address}' is not an address; write it as in 0x100000000000"))?;
    let bytes = number(bytes).filter(|bytes| (1..=8).contains(bytes)).ok_or("1 to 8 bytes can be watched")?;
    Ok(Observe::Writes { address, bytes: bytes as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        assert_eq!(watched("0x10:8"), Ok(Observe::Writes { address: 16, bytes: 8 }));
        assert_eq!(watched("4096"), Ok(Observe::Writes { address: 4096, bytes: 4 }));
        for wrong in ["", "x", "0x10:9", "0x10:0", "0x10:"] {
            assert!(watched(wrong).is_err(), "{wrong}");
        }
    }
}
