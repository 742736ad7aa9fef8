//! The winners that the process applies, from the files in `MNEME_TUNED`.

use std::collections::HashMap;
use std::sync::OnceLock;

use mneme_model::summary::RecorderMode;
use mneme_system::run;
use mneme_winners::{VARIABLE, Winner, Winners};

use crate::process::log::warning;
use crate::process::settings::settings;

/// The winners of a kernel by its mangled name, best first. Empty unless the process applies winners.
pub fn of(kernel: &str) -> &'static [Winner] {
    static KNOWN: OnceLock<HashMap<String, Vec<Winner>>> = OnceLock::new();
    KNOWN.get_or_init(read).get(kernel).map_or(&[], Vec::as_slice)
}

fn read() -> HashMap<String, Vec<Winner>> {
    let settings = settings();
    let mut known: HashMap<String, Vec<Winner>> = HashMap::new();
    if settings.mode != RecorderMode::Apply {
        return known;
    }
    if settings.tuned.is_empty() && settings.specialise.is_none() {
        warning!(
            "{VARIABLE} names no file of tuned kernels, so nothing is replaced; mneme apply --manifest writes such a file"
        );
    }
    for path in &settings.tuned {
        if path.starts_with("/proc") && !run::has_memory(path) {
            warning!(
                "{} is not the file that mneme apply has left for this program, so its kernels are not replaced",
                path.display()
            );
            continue;
        }
        match Winners::load(path) {
            Ok(found) => found.winners.into_iter().for_each(|it| known.entry(it.kernel.clone()).or_default().push(it)),
            Err(error) => warning!("{error}; the kernels of this file are not replaced"),
        }
    }
    let speedup = |winner: &Winner| winner.before.zip(winner.after).map_or(1.0, |(before, after)| before / after);
    known.values_mut().for_each(|winners| winners.sort_by(|one, other| speedup(other).total_cmp(&speedup(one))));
    known
}
