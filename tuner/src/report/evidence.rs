//! The evidence of the session's verdicts: how much a match with the recording shows.

use maud::{Markup, html};
use mneme_model::units;
use serde_json::Value;

use super::environment::table;
use crate::archive::{Archive, plain};

pub fn evidence(archive: &Archive) -> Markup {
    let facts = facts(&archive.baseline["result"]["evidence"], &archive.summary["fresh_inputs"]);
    html! {
        @if !facts.is_empty() {
            section class="columns" { div { h2 { "Evidence" } (table(&facts)) } }
        }
    }
}

/// The baseline's evidence, which holds for all candidates, and the fresh inputs of finalists.
fn facts(evidence: &Value, fresh_inputs: &Value) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let count = |from: &Value, name: &str| from[name].as_u64().unwrap_or(0);
    if evidence.is_object() {
        for name in ["compared", "written", "changed", "poisoned", "shown", "ignored"] {
            facts.push((name.to_owned(), units::bytes(count(evidence, name))));
        }
        for rule in evidence["rules"].as_array().into_iter().flatten() {
            facts.push(("rule".to_owned(), plain(rule)));
        }
        if let Some(why) = evidence["not_searched"].as_str().filter(|why| !why.is_empty()) {
            facts.push(("not_searched".to_owned(), why.to_owned()));
        }
    }
    if fresh_inputs.is_object() {
        let (tried, agreed) = (count(fresh_inputs, "tried"), count(fresh_inputs, "agreed"));
        let seeds = plain(&fresh_inputs["seeds"]);
        facts.push(("fresh_inputs".to_owned(), format!("{agreed} of {tried} are useful; seeds {seeds}")));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_session_without_evidence_has_no_facts() {
        assert_eq!(facts(&Value::Null, &Value::Null), []);
        let facts = facts(&json!({"shown": 4096, "rules": ["x at 0x1: f32:1e-5"]}), &json!({"tried": 4, "agreed": 3}));
        let value = |name: &str| facts.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        assert_eq!((value("shown"), value("written")), (Some("4.00 KiB"), Some("0 B")));
        assert!(value("rule").is_some() && value("fresh_inputs").is_some_and(|it| it.starts_with("3 of 4")));
    }
}
