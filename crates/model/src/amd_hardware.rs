//! The limits of AMD processors: registers, waves, shared memory.
//!
//! The numbers come from the instruction set manuals and LLVM's AMDGPU back end; its "Occupancy" is the result of
//! [`Hardware::waves`]. The lanes of a wave run in lockstep; a SIMD unit holds several waves.
//!
//! waves = min(maximum, vector registers of a lane / those of the kernel rounded up to the unit of allocation, waves
//! that the scalar registers allow, waves of the blocks whose shared memory fits / SIMD units)

use super::architecture::Processor;

/// Resources shared by the waves of a block: those of a compute unit, or (from gfx10 on, unless code is compiled for
/// `cumode`) of a pair of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The maximum number of waves on a SIMD unit.
    pub most_waves: u32,
    /// SIMD units.
    pub simds: u32,
    /// Lanes of a wave.
    pub wavefront_size: u32,
    /// Vector registers of a lane of a SIMD unit, and the unit of their allocation.
    vgprs: u32,
    vgpr_unit: u32,
    /// Whether scalar registers limit waves.
    limits_sgprs: bool,
    /// Shared memory, bytes.
    pub shared: u32,
    /// The maximum number of blocks with several waves.
    most_blocks: u32,
}

/// Registers of a kernel: scalar ones of a wave, vector ones of a lane, including both kinds if one file holds both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmdRegisters {
    pub sgprs: u32,
    pub vgprs: u32,
}

/// Processors from gfx11 on whose SIMD units have 1.5 times as many vector registers.
const MORE_REGISTERS: [&str; 6] = ["gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201", "gfx12-generic"];
/// Processors of gfx9 that keep vector and accumulation registers in one file.
const ONE_FILE: [&str; 6] = ["gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", "gfx9-4-generic"];
/// The only processor with more shared memory than 64 KiB.
const MORE_SHARED: &str = "gfx950";

/// The maximum shared memory (LDS) of a block, bytes.
pub fn shared_of_block(processor: &Processor) -> u32 {
    if processor.name == MORE_SHARED { 160 << 10 } else { 64 << 10 }
}

impl Hardware {
    /// The hardware for waves with this many lanes; `one_unit`: blocks stay on one compute unit (`cumode`).
    pub fn of(processor: &Processor, wavefront_size: u32, one_unit: bool) -> Self {
        let (name, major) = (processor.name.as_str(), processor.major());
        let halves = if wavefront_size == 32 { 1 } else { 2 };
        let is_first_10 = name.starts_with("gfx101") || name == "gfx10-1-generic";
        let (vgprs, vgpr_unit, most_waves) = if ONE_FILE.contains(&name) {
            (512, 8, 8)
        } else if major < 10 {
            (256, 4, 10)
        } else if MORE_REGISTERS.contains(&name) {
            (1536 / halves, 24 / halves, 16)
        } else if is_first_10 {
            (1024 / halves, 8 / halves, 20)
        } else {
            (1024 / halves, 16 / halves, 16)
        };
        let pair = major >= 10 && !one_unit;
        let shared = shared_of_block(processor);
        Self {
            most_waves,
            simds: if major >= 10 && one_unit { 2 } else { 4 },
            wavefront_size,
            vgprs,
            vgpr_unit,
            limits_sgprs: major < 10,
            shared: if pair { 2 * shared } else { shared },
            most_blocks: if pair { 32 } else { 16 },
        }
    }

    /// The number of waves on a SIMD unit, for blocks of `threads` threads with `shared` bytes of shared memory each.
    pub fn waves(&self, registers: AmdRegisters, threads: u32, shared: u32) -> u32 {
        let rounded = registers.vgprs.max(1).next_multiple_of(self.vgpr_unit);
        let by_vgprs = (self.vgprs / rounded).max(1);
        let by_sgprs = match registers.sgprs {
            _ if !self.limits_sgprs => self.most_waves,
            0..=80 => 10,
            81..=88 => 9,
            89..=100 => 8,
            _ => 7,
        };
        let of_block = threads.max(1).div_ceil(self.wavefront_size);
        let fitting = self.shared.checked_div(shared).unwrap_or(u32::MAX).max(1);
        // A block with a single wave does not use a barrier resource.
        let most_blocks = if of_block == 1 { self.most_waves * self.simds } else { self.most_blocks };
        let by_blocks = fitting.min(most_blocks).saturating_mul(of_block).div_ceil(self.simds);
        [by_vgprs, by_sgprs, by_blocks].into_iter().fold(self.most_waves, u32::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waves(name: &str, lanes: u32, vgprs: u32, sgprs: u32, threads: u32, shared: u32) -> u32 {
        Hardware::of(&Processor::parse(name).unwrap(), lanes, false).waves(
            AmdRegisters { vgprs, sgprs },
            threads,
            shared,
        )
    }

    #[test]
    fn registers_limit_waves() {
        // The tables of LLVM's AMDGPU back end.
        for (name, lanes, vgprs, expected) in [
            ("gfx906", 64, 24, 10),
            ("gfx906", 64, 25, 9),
            ("gfx906", 64, 128, 2),
            ("gfx906", 64, 129, 1),
            ("gfx90a", 64, 64, 8),
            ("gfx90a", 64, 65, 7),
            ("gfx90a", 64, 256, 2),
            ("gfx90a", 64, 512, 1),
            ("gfx1030", 32, 64, 16),
            ("gfx1030", 32, 65, 12),
            ("gfx1030", 64, 65, 7),
            ("gfx1100", 32, 96, 16),
            ("gfx1100", 32, 97, 12),
            ("gfx1102", 32, 97, 9),
            ("gfx1010", 32, 48, 20),
        ] {
            assert_eq!(waves(name, lanes, vgprs, 16, 1024, 0), expected, "{name}, {lanes} lanes, {vgprs} registers");
        }
        assert_eq!((waves("gfx906", 64, 8, 81, 1024, 0), waves("gfx906", 64, 8, 102, 1024, 0)), (9, 7));
        assert_eq!(waves("gfx1030", 32, 8, 106, 1024, 0), 16, "scalar registers are plenty from gfx10 on");
    }

    #[test]
    fn shared_memory_limits_waves() {
        assert_eq!(waves("gfx90a", 64, 8, 8, 256, 32 << 10), 2, "two blocks of four waves on four units");
        assert_eq!(waves("gfx90a", 64, 8, 8, 256, 64 << 10), 1);
        assert_eq!(waves("gfx1030", 32, 8, 8, 256, 32 << 10), 8, "four blocks of eight waves");
        assert_eq!(waves("gfx90a", 64, 8, 8, 256, 0), 8);
        assert_eq!(waves("gfx950", 64, 8, 8, 256, 32 << 10), 5);
    }
}
