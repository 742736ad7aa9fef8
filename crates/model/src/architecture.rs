//! GPU architectures ("sm_90a", "gfx90a:sramecc+:xnack-"), and the rules for which code runs where.

/// The vendor of an architecture's GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    Nvidia,
    Amd,
}

impl Vendor {
    /// The vendor of a device's or IR's architecture: "sm_90", "gfx90a:xnack+".
    pub fn of_architecture(text: &str) -> Option<Self> {
        GpuArchitecture::parse(text).map(|architecture| architecture.vendor())
    }

    /// The vendor of an IR module's triple.
    pub fn of_triple(triple: &str) -> Option<Self> {
        [("nvptx", Self::Nvidia), ("amdgcn", Self::Amd)]
            .into_iter()
            .find_map(|(start, vendor)| triple.starts_with(start).then_some(vendor))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
        }
    }
}

/// The architecture of a GPU of any vendor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GpuArchitecture {
    Nvidia(Architecture),
    Amd(Processor),
}

impl GpuArchitecture {
    /// Parses "sm_90a", "compute_90" or "gfx90a:sramecc+:xnack-".
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with("sm_") || text.starts_with("compute_") {
            Architecture::parse(text).map(Self::Nvidia)
        } else {
            Processor::parse(text).map(Self::Amd)
        }
    }

    pub fn vendor(&self) -> Vendor {
        match self {
            Self::Nvidia(_) => Vendor::Nvidia,
            Self::Amd(_) => Vendor::Amd,
        }
    }

    /// Whether machine code for this architecture runs on a device of another.
    pub fn machine_code_runs_on(&self, device: &Self) -> bool {
        match (self, device) {
            (Self::Nvidia(code), Self::Nvidia(device)) => code.machine_code_runs_on(device.number),
            (Self::Amd(code), Self::Amd(device)) => code.machine_code_runs_on(device),
            _ => false,
        }
    }
}

impl std::fmt::Display for GpuArchitecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nvidia(architecture) => architecture.fmt(f),
            Self::Amd(processor) => processor.fmt(f),
        }
    }
}

/// An AMD processor and the settings of its two features. Code is compiled for a feature on, off, or (`None`) either; a
/// device reports its setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Processor {
    /// E.g. "gfx90a", "gfx11-generic".
    pub name: String,
    /// Page faults are handled by repeating instructions.
    pub xnack: Option<bool>,
    /// Memory is protected against flipped bits.
    pub sramecc: Option<bool>,
}

/// Processors that code for a whole family runs on ("Generic processors" of LLVM's AMDGPU usage guide).
const FAMILIES: [(&str, &[&str]); 6] = [
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx11-generic", &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
];

impl Processor {
    /// Parses "gfx90a" and "gfx90a:sramecc+:xnack-".
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let name = parts.next().filter(|name| is_processor(name))?;
        let mut processor = Self { name: name.to_owned(), ..Self::default() };
        for part in parts {
            let (feature, on) = match (part.strip_suffix('+'), part.strip_suffix('-')) {
                (Some(feature), _) => (feature, true),
                (None, Some(feature)) => (feature, false),
                (None, None) => return None,
            };
            *match feature {
                "xnack" => &mut processor.xnack,
                "sramecc" => &mut processor.sramecc,
                _ => return None,
            } = Some(on);
        }
        Some(processor)
    }

    /// The major version: 9 for "gfx90a", 11 for "gfx1100" and "gfx11-generic".
    pub fn major(&self) -> u32 {
        let digits = &self.name["gfx".len()..];
        let major = match digits.split_once('-') {
            Some((major, _)) => major,
            // The last two characters are a minor version and a stepping.
            None => &digits[..digits.len().saturating_sub(2)],
        };
        major.parse().unwrap_or(0)
    }

    /// Lanes of a wave, unless code specifies another number.
    pub fn wavefront_size(&self) -> u32 {
        if self.major() >= 10 { 32 } else { 64 }
    }

    /// Whether machine code, or IR, for this processor runs on `device`: it is the same processor or its family, and
    /// features do not conflict ("Target ID" of LLVM's AMDGPU usage guide).
    pub fn machine_code_runs_on(&self, device: &Self) -> bool {
        let in_family =
            || FAMILIES.iter().any(|(name, members)| *name == self.name && members.contains(&device.name.as_str()));
        let agrees = |code: Option<bool>, device: Option<bool>| code.is_none() || code == device;
        (self.name == device.name || in_family())
            && agrees(self.xnack, device.xnack)
            && agrees(self.sramecc, device.sramecc)
    }
}

/// "gfx" and a version, or a family's name.
fn is_processor(name: &str) -> bool {
    let Some(version) = name.strip_prefix("gfx") else { return false };
    let is_version = (3..=5).contains(&version.len())
        && version.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    is_version || FAMILIES.iter().any(|(family, _)| *family == name)
}

impl std::fmt::Display for Processor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        for (name, setting) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if let Some(on) = setting {
                write!(f, ":{name}{}", if on { '+' } else { '-' })?;
            }
        }
        Ok(())
    }
}

/// An NVIDIA architecture: compute capability times ten, and its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Architecture {
    /// E.g. 90.
    pub number: u32,
    /// `a`: architecture-specific instructions, the code runs only on this architecture. `f`: family-specific ones.
    pub suffix: Option<char>,
}

impl Architecture {
    pub const fn new(number: u32) -> Self {
        Self { number, suffix: None }
    }

    /// Parses "sm_90a", "compute_90" or "90".
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

    #[test]
    fn vendors_are_told_apart() {
        assert_eq!(Vendor::of_architecture("sm_90a"), Some(Vendor::Nvidia));
        assert_eq!(Vendor::of_architecture("gfx90a:sramecc+:xnack-"), Some(Vendor::Amd));
        for neither in ["", "cpu", "gfx", "gfx9", "gfxabcxyz", "gfx90a:", "gfx90a:other+", "gfx90a:xnack", "amdgcn"] {
            assert_eq!(Vendor::of_architecture(neither), None, "{neither}");
        }
        assert_eq!(Vendor::of_triple("amdgcn-amd-amdhsa"), Some(Vendor::Amd));
        assert_eq!(Vendor::of_triple("nvptx64-nvidia-cuda"), Some(Vendor::Nvidia));
        assert_eq!(Vendor::of_triple("x86_64-unknown-linux-gnu"), None);
    }

    #[test]
    fn processors_know_their_version_and_waves() {
        for (name, major, lanes) in [
            ("gfx803", 8, 64),
            ("gfx90a", 9, 64),
            ("gfx9-4-generic", 9, 64),
            ("gfx1030", 10, 32),
            ("gfx11-generic", 11, 32),
        ] {
            let processor = Processor::parse(name).unwrap();
            assert_eq!((processor.major(), processor.wavefront_size()), (major, lanes), "{name}");
        }
        let full = Processor::parse("gfx90a:xnack-:sramecc+").unwrap();
        assert_eq!(full.to_string(), "gfx90a:sramecc+:xnack-");
    }

    #[test]
    fn code_runs_on_its_processor_with_its_features() {
        let runs = |code: &str, device: &str| {
            GpuArchitecture::parse(code).unwrap().machine_code_runs_on(&GpuArchitecture::parse(device).unwrap())
        };
        let device = "gfx90a:sramecc+:xnack-";
        for (code, fits) in [
            ("gfx90a", true),
            ("gfx90a:xnack-", true),
            ("gfx90a:sramecc+:xnack-", true),
            ("gfx90a:xnack+", false),
            ("gfx90a:sramecc-", false),
            ("gfx908", false),
            ("gfx9-generic", false),
            ("sm_90", false),
        ] {
            assert_eq!(runs(code, device), fits, "{code}");
        }
        assert!(runs("gfx9-generic", "gfx906:sramecc+:xnack-") && runs("gfx10-3-generic", "gfx1034"));
        assert!(!runs("gfx10-3-generic", "gfx1010") && !runs("gfx1100", "gfx1101"));
        assert!(!runs("gfx90a", "sm_90") && runs("sm_80", "sm_86"));
    }
}
