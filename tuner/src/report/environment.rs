//! The environment and settings of the trials.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use mneme_model::text::shorten;

use crate::archive::{Archive, flat, plain};

/// Limit on the values listed for one property.
const VALUES: usize = 6;

pub fn environment(archive: &Archive) -> Markup {
    let facts = facts(archive);
    let settings = flat(&archive.config);
    html! {
        section class="columns" {
            @if !facts.is_empty() {
                div { h2 { "Environment" } (table(&facts)) }
            }
            @if !settings.is_empty() {
                div {
                    h2 { "Settings" }
                    (table(
                        &settings
                            .iter()
                            .filter(|(_, value)| !value.is_null())
                            .map(|(name, value)| (name.clone(), shorten(&plain(value), 400)))
                            .collect::<Vec<_>>()
                    ))
                }
            }
        }
    }
}

pub fn table(rows: &[(String, String)]) -> Markup {
    html! {
        table class="facts" {
            @for (name, value) in rows { tr { th scope="row" { (name.replace('_', " ")) } td { (value) } } }
        }
    }
}

/// The properties of all results' environments, each with its value or values.
fn facts(archive: &Archive) -> Vec<(String, String)> {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut clocks: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for environment in archive
        .trials
        .iter()
        .map(|trial| &trial.line["result"]["environment"])
        .chain([&archive.baseline["result"]["environment"]])
    {
        for (name, value) in flat(environment) {
            // The code differs between trials.
            if name == "code" || value.is_null() || value == "" {
                continue;
            }
            match value.as_f64().filter(|_| name.ends_with("_mhz")) {
                Some(clock) => {
                    let range = clocks.entry(name).or_insert((clock, clock));
                    *range = (range.0.min(clock), range.1.max(clock));
                }
                None => {
                    values.entry(name).or_default().insert(plain(&value));
                }
            }
        }
    }
    let listed = |values: BTreeSet<String>| {
        let more = values.len().saturating_sub(VALUES);
        let list = values.into_iter().take(VALUES).collect::<Vec<_>>().join("; ");
        if more > 0 { format!("{list}; and {more} others") } else { list }
    };
    let mut facts: Vec<(String, String)> = values.into_iter().map(|(name, values)| (name, listed(values))).collect();
    facts.extend(clocks.into_iter().map(|(name, (low, high))| {
        let name = name.trim_start_matches("clocks.").replace("_mhz", " clock");
        (name, if low == high { format!("{low} MHz") } else { format!("{low} to {high} MHz") })
    }));
    facts
}
