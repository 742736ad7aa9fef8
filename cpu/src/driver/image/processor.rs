//! The AMD processor that the device stands in for: the setting, or the newest for which there is IR.

use std::sync::OnceLock;

use mneme_model::architecture::Processor;
use mneme_system::environment;

use super::sections;

/// The processor if there is neither a setting nor IR.
const DEFAULT: &str = "gfx90a";

/// The processor's name. It stays the same while the program runs, whatever is loaded later, because the program may
/// have acted on it.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let wanted = environment::variable("MNEME_CPU_GFX").filter(|wanted| !wanted.is_empty());
        match wanted {
            Some(wanted) if Processor::parse(&wanted).is_some_and(|processor| processor.name == wanted) => {
                return wanted;
            }
            Some(other) => crate::report::say!("MNEME_CPU_GFX is '{other}', not an AMD processor such as gfx90a"),
            None => {}
        }
        newest(sections::amd_architectures()).unwrap_or_else(|| DEFAULT.into())
    })
}

fn newest(architectures: impl IntoIterator<Item = String>) -> Option<String> {
    architectures.into_iter().max_by_key(|architecture| version(architecture))
}

/// Major version, minor version and stepping: (9, 0, 10) of "gfx90a", with one hexadecimal digit for each of the last
/// two. Families have a major version and sometimes a minor one ("gfx9-4-generic").
pub fn version(architecture: &str) -> Option<(u32, u32, u32)> {
    let text = architecture.strip_prefix("gfx")?;
    if let Some((major, rest)) = text.split_once('-') {
        return Some((major.parse().ok()?, rest.split('-').next()?.parse().unwrap_or(0), 0));
    }
    let (major, rest) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let (minor, stepping) = rest.split_at_checked(1)?;
    let digit = |text: &str| u32::from_str_radix(text, 16).ok();
    Some((major.parse().ok()?, digit(minor)?, digit(stepping)?))
}

/// Lanes of a wave, unless a kernel's row has another number.
pub fn wave_size() -> u32 {
    Processor::parse(name()).map_or(64, |processor| processor.wavefront_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_in_order_of_their_versions() {
        let given = ["gfx90a", "gfx1030", "gfx942", "gfx1100", "gfx803"].map(str::to_owned);
        assert_eq!(newest(given.clone()).as_deref(), Some("gfx1100"));
        assert_eq!(newest(given.into_iter().filter(|name| !name.starts_with("gfx1"))).as_deref(), Some("gfx942"));
        assert_eq!((version("gfx90a"), version("gfx1201")), (Some((9, 0, 10)), Some((12, 0, 1))));
        assert_eq!(version("gfx9-4-generic"), Some((9, 4, 0)));
        for none in ["", "gfx", "gfx9", "sm_90", "gfx9z1", "gfx\u{e9}90"] {
            assert_eq!(version(none), None, "{none}");
        }
    }
}
