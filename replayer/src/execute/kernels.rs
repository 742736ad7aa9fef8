//! PTX kernels that inspect and compare memory on the device.

use mneme_device::{Device, DeviceError, DeviceFunction};
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

/// Threads per block of both kernels.
const THREADS: u32 = 256;

/// The modes of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum InspectionMode {
    /// Finds pieces that differ from the recording after the launch, and restores the others.
    Settle = 0,
    /// Finds pieces that differ from the recording before the launch.
    Look = 1,
    /// Restores all pieces that differ from the recording before the launch.
    Restore = 2,
}

pub struct InspectionKernels {
    inspect: DeviceFunction,
    compare: DeviceFunction,
}

impl InspectionKernels {
    pub fn load(device: &dyn Device) -> Result<Self, DeviceError> {
        let load = |source: &str, entry| {
            let module = device.load((expand(source) + "\0").as_bytes())?;
            device.function(module, entry)
        };
        Ok(Self {
            inspect: load(include_str!("inspect.ptx"), "mneme_inspect")?,
            compare: load(include_str!("compare.ptx"), "mneme_compare")?,
        })
    }

    /// Inspects the pieces of a table and writes to `out`; inspect.ptx describes both.
    pub fn inspect(
        &self,
        device: &dyn Device,
        pieces: usize,
        table: u64,
        mode: InspectionMode,
        out: u64,
    ) -> Result<(), DeviceError> {
        let arguments = [table, u64::from(mode as u32), out].map(|number| number.to_le_bytes().to_vec());
        launch(device, self.inspect, pieces, &arguments)
    }

    /// Compares the memory that the jobs name under bounds, and adds to `sums`; compare.ptx describes all of them.
    pub fn compare(
        &self,
        device: &dyn Device,
        count: usize,
        jobs: u64,
        bounds: u64,
        sums: u64,
    ) -> Result<(), DeviceError> {
        let arguments = [jobs, bounds, sums].map(|number| number.to_le_bytes().to_vec());
        launch(device, self.compare, count, &arguments)
    }
}

fn launch(
    device: &dyn Device,
    function: DeviceFunction,
    blocks: usize,
    arguments: &[Vec<u8>],
) -> Result<(), DeviceError> {
    // A device's memory has fewer chunks than a grid can have blocks (2^31 - 1).
    let grid = Dim3::new(u32::try_from(blocks).expect("fewer chunks than blocks of a grid"), 1, 1);
    let launch =
        Launch { grid, block: Dim3::new(THREADS, 1, 1), shared_mem: 0, attributes: LaunchAttributes::default() };
    device.enqueue(function, &launch, arguments)
}

/// The constant that the chunk hash multiplies a word's number by (see [`mneme_model::hash`]).
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash's step for one word. `WORD` and `KEYED` are placeholders for it.
const ABSORB: &str = "	add.u64 %x, WORD, KEYED;
	shr.u64 %a, %x, 30;
	xor.b64 %x, %x, %a;
	mul.lo.u64 %x, %x, 0xbf58476d1ce4e5b9;
	shr.u64 %a, %x, 27;
	xor.b64 %x, %x, %a;
	mul.lo.u64 %x, %x, 0x94d049bb133111eb;
	shr.u64 %a, %x, 31;
	xor.b64 %x, %x, %a;
	add.u64 %low, %low, %x;
	shr.u64 %a, %x, 29;
	xor.b64 %a, %a, %x;
	mul.lo.u64 %a, %a, 0xd6e8feb86659fd93;
	shl.b64 %b, %a, 23;
	shr.u64 %a, %a, 41;
	or.b64 %a, %a, %b;
	xor.b64 %a, %a, %x;
	add.u64 %high, %high, %a;
";

/// Expands the lines `absorb %w, n;` and the constants `KEY*n`.
fn expand(source: &str) -> String {
    let multiple = |text: &str| KEY.wrapping_mul(text.parse().expect("a number in our own source"));
    let mut expanded = String::new();
    for line in source.lines() {
        if let Some((word, number)) =
            line.trim().strip_prefix("absorb ").and_then(|rest| rest.strip_suffix(';')?.split_once(", "))
        {
            let keyed = match multiple(number) {
                0 => "%key",
                constant => {
                    expanded += &format!("\tadd.u64 %b, %key, {constant:#x};\n");
                    "%b"
                }
            };
            expanded += &ABSORB.replace("WORD", word).replace("KEYED", keyed);
        } else if let Some((head, number)) = line.split_once("KEY*") {
            expanded += &format!("{head}{:#x};\n", multiple(number.trim_end_matches(';')));
        } else {
            expanded += line;
            expanded.push('\n');
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorthand_is_written_out() {
        assert_eq!(expand("a;\n\tadd.u64 %k, %k, KEY*2;\n"), "a;\n\tadd.u64 %k, %k, 0x3c6ef372fe94f82a;\n");
        let plain = expand("\tabsorb %w0, 0;\n");
        assert!(plain.starts_with("\tadd.u64 %x, %w0, %key;\n") && plain.ends_with("%a;\n"), "{plain}");
        let keyed = expand("\tabsorb %w1, 1;\n");
        assert!(keyed.starts_with("\tadd.u64 %b, %key, 0x9e3779b97f4a7c15;\n\tadd.u64 %x, %w1, %b;\n"), "{keyed}");
        for line in expand(include_str!("inspect.ptx")).lines().filter(|line| !line.starts_with("//")) {
            assert!(!line.contains("absorb") && !line.contains("KEY"), "{line}");
        }
    }
}
