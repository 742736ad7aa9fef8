//! What a session prints.

use std::collections::VecDeque;

use mneme_core::result::ReplayResult;

use crate::text::shorten;

/// Width of an error in a candidate's line, characters.
const ERROR_WIDTH: usize = 80;

/// What one line has room for; the log and `trials.jsonl` have all of it.
pub fn first_clause(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    shorten(line.split("; ").next().unwrap_or_default().trim_end(), ERROR_WIDTH)
}

pub fn what_went_wrong(result: &ReplayResult) -> String {
    if !result.error.is_empty() {
        return result.error.clone();
    }
    match &result.mismatch {
        Some(mismatch) => format!("memory differs from the recording in {} elements", mismatch.differing),
        None if result.verified => "nothing was measured".into(),
        None => "memory differs from the recording".into(),
    }
}

/// Holds lines back until those of candidates before them have come: results arrive in the order of completion.
#[derive(Debug, Default)]
pub struct InOrder(VecDeque<(u64, Option<String>)>);

impl InOrder {
    /// A line will come.
    pub fn expect(&mut self, id: u64) {
        self.0.push_back((id, None));
    }

    pub fn add(&mut self, id: u64, line: String, mut print: impl FnMut(&str)) {
        if let Some((_, place)) = self.0.iter_mut().find(|(expected, _)| *expected == id) {
            *place = Some(line);
        }
        while let Some((_, Some(_))) = self.0.front() {
            if let Some((_, Some(line))) = self.0.pop_front() {
                print(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_cut_to_what_it_is_about() {
        assert_eq!(first_clause("unknown pass 'x'; see opt --print-passes\nat 1"), "unknown pass 'x'");
        assert_eq!(first_clause("LLVM crashed\nStack dump:"), "LLVM crashed");
        assert_eq!(first_clause(&"x".repeat(500)).chars().count(), ERROR_WIDTH);
        assert_eq!(first_clause(""), "");
    }

    #[test]
    fn lines_come_out_in_order() {
        let mut order = InOrder::default();
        let mut printed = Vec::new();
        [7, 2, 9, 4, 3].iter().for_each(|id| order.expect(*id));
        for id in [2, 9, 7, 3, 4] {
            order.add(id, id.to_string(), |line| printed.push(line.to_owned()));
        }
        assert_eq!(printed, ["7", "2", "9", "4", "3"]);
    }
}
