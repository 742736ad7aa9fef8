//! NVIDIA architectures ("sm_90", "sm_90a"), and which code runs where.

/// An architecture: compute capability times ten, and its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Architecture {
    /// E.g. 90.
    pub number: u32,
    /// `a`: this architecture's own instructions, code runs on exactly it. `f`: its family's.
    pub suffix: Option<char>,
}

impl Architecture {
    pub const fn new(number: u32) -> Self {
        Self { number, suffix: None }
    }

    /// Reads "sm_90a", "compute_90" or "90".
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.rsplit_once('_').map_or(text, |(_, number)| number);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        Some(Self { number: digits.parse().ok()?, suffix: text[digits.len()..].chars().next() })
    }

    /// Whether machine code for this architecture runs on `device` (90): the same major version, not newer, and code
    /// with architecture-specific instructions on its own architecture only (CUDA Programming Guide, "Binary
    /// Compatibility").
    pub fn machine_code_runs_on(self, device: u32) -> bool {
        match self.suffix {
            Some('a') => self.number == device,
            _ => self.number / 10 == device / 10 && self.number <= device,
        }
    }

    /// Whether PTX for this architecture can be compiled for `device` (90).
    pub fn ptx_compiles_for(self, device: u32) -> bool {
        match self.suffix {
            Some('a') => self.number == device,
            Some(_) => self.number / 10 == device / 10 && self.number <= device,
            None => self.number <= device,
        }
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}", self.number)?;
        self.suffix.map_or(Ok(()), |suffix| write!(f, "{suffix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_where() {
        let arch = |text| Architecture::parse(text).unwrap();
        assert_eq!(arch("sm_90a").to_string(), "sm_90a");
        assert_eq!(arch("compute_80"), Architecture::new(80));
        assert!(
            arch("sm_80").machine_code_runs_on(86)
                && !arch("sm_80").machine_code_runs_on(90)
                && !arch("sm_86").machine_code_runs_on(80)
        );
        assert!(arch("sm_90a").machine_code_runs_on(90) && !arch("sm_100a").machine_code_runs_on(103));
        assert!(arch("compute_80").ptx_compiles_for(90) && !arch("compute_90a").ptx_compiles_for(100));
        assert_eq!(Architecture::parse("gfx"), None);
    }
}
