//! Failed trials by class and reason.

use std::collections::BTreeMap;

use maud::{Markup, html};
use mneme_model::result::ReplayStatus;
use mneme_model::text::shorten;

use crate::archive::{Archive, ArchivedTrial};

/// Limit on the reasons listed for a class.
const REASONS: usize = 8;
/// Limit on the characters of a reason.
const LENGTH: usize = 240;

/// The section; empty if every trial verified.
pub fn failures(archive: &Archive) -> Markup {
    let mut classes: BTreeMap<&str, BTreeMap<String, Vec<&ArchivedTrial>>> = BTreeMap::new();
    for trial in archive.trials.iter().filter(|trial| trial.status != "verified" && trial.stopped.is_none()) {
        classes.entry(&trial.status).or_default().entry(reason(trial)).or_default().push(trial);
    }
    let count = |reasons: &BTreeMap<String, Vec<&ArchivedTrial>>| reasons.values().map(Vec::len).sum::<usize>();
    let mut ordered: Vec<_> = classes.iter().collect();
    ordered.sort_by_key(|(_, reasons)| std::cmp::Reverse(count(reasons)));
    html! {
        @if !ordered.is_empty() || archive.torn > 0 {
            section {
                h2 { "Failures" }
                table {
                    thead { tr { th { "class" } th class="number" { "trials" } th { "reason" } th class="number" { "trials" } th { "for example" } } }
                    @for (class, reasons) in &ordered {
                        @let of_class = by_count(reasons);
                        tbody {
                            @for (row, (reason, trials)) in of_class.iter().take(REASONS).enumerate() {
                                tr {
                                    @if row == 0 {
                                        th scope="rowgroup" rowspan=(of_class.len().min(REASONS + 1)) { (class.replace('_', " ")) }
                                        td class="number" rowspan=(of_class.len().min(REASONS + 1)) { (count(reasons)) }
                                    }
                                    td { (shorten(reason, LENGTH)) }
                                    td class="number" { (trials.len()) }
                                    td { "trial " (trials[0].number) }
                                }
                            }
                            @if of_class.len() > REASONS {
                                tr {
                                    td { "and " (of_class.len() - REASONS) " other reasons" }
                                    td class="number" {
                                        (of_class[REASONS..].iter().map(|(_, trials)| trials.len()).sum::<usize>())
                                    }
                                    td {}
                                }
                            }
                        }
                    }
                }
                @if archive.torn > 0 {
                    p class="note" { (archive.torn) " lines of trials.jsonl could not be read: a session was ended while it wrote." }
                }
            }
        }
    }
}

fn by_count<'a>(
    reasons: &'a BTreeMap<String, Vec<&'a ArchivedTrial>>,
) -> Vec<(&'a String, &'a Vec<&'a ArchivedTrial>)> {
    let mut ordered: Vec<_> = reasons.iter().collect();
    ordered.sort_by_key(|(_, trials)| std::cmp::Reverse(trials.len()));
    ordered
}

/// The reason for a failure, without details that differ between trials.
fn reason(trial: &ArchivedTrial) -> String {
    if trial.status == ReplayStatus::FailedVerification.name() {
        // The part before the colon names the place.
        return trial.error.split(": ").next().unwrap_or_default().into();
    }
    clause(&trial.error)
}

/// An error without its details and numbers.
fn clause(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    let mut text = String::new();
    for character in line.split("; ").next().unwrap_or_default().trim_end_matches(':').chars() {
        // Makes "in 12 elements" and "in 5000 elements" one reason.
        if !character.is_ascii_digit() {
            text.push(character);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::clause;

    #[test]
    fn reasons_of_one_kind_are_one() {
        assert_eq!(clause("memory differs in 12 elements; see"), clause("memory differs in 5000 elements"));
        assert_eq!(clause("LLVM crashed:\nStack dump"), "LLVM crashed");
        assert_eq!(clause(""), "");
    }
}
