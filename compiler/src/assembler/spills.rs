//! Register spills, read off an assembler's messages.
//!
//! `ptxas -v` prints them in lines like these:
//!
//! ```text
//! ptxas info    : Compiling entry function 'k' for 'sm_90'
//! ptxas info    : Function properties for k
//! ptxas         .     328 bytes stack frame, 328 bytes spill stores, 460 bytes spill loads
//! ```

use std::collections::HashSet;

use mneme_builds::Spills;

/// The spills of a kernel and of the image's functions that it may call; `None` if the log does not contain them.
pub(super) fn of(log: &str, kernel: &str) -> Option<Spills> {
    let entry = |line: &str| Some(line.split_once("Compiling entry function '")?.1.split_once('\'')?.0.to_owned());
    let entries: HashSet<String> = log.lines().filter_map(entry).collect();
    let mut function = "";
    let (mut sum, mut found) = (Spills::default(), false);
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            function = name.trim();
        } else if let Some(own) = read(line)
            && (function == kernel || !entries.contains(function))
        {
            sum = Spills { stores: sum.stores + own.stores, loads: sum.loads + own.loads };
            found |= function == kernel;
        }
    }
    found.then_some(sum)
}

fn read(line: &str) -> Option<Spills> {
    let before = |what: &str| line.split_once(what)?.0.split_whitespace().next_back()?.parse().ok();
    Some(Spills { stores: before(" bytes spill stores")?, loads: before(" bytes spill loads")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
ptxas         .     8 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
ptxas         .     328 bytes stack frame, 328 bytes spill stores, 460 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
ptxas info    : Function properties for callee
    0 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
info    : Function properties for 'k':
info    : used 24 registers, used 0 barriers, 328 stack, 0 bytes smem, 536 bytes cmem[0], 0 bytes lmem
";

    #[test]
    fn a_kernel_counts_with_its_functions_and_without_other_kernels() {
        assert_eq!(of(LOG, "k"), Some(Spills { stores: 332, loads: 472 }));
        assert_eq!(of(LOG, "unknown"), None);
        assert_eq!(of("", "k"), None);
    }
}
