//! Targets for files that direct programs of ours: compiled winners and rules for buffers.

use mneme_model::checked_text::write_checksum;
use mneme_model::tolerance::Tolerance;
use mneme_recording::rules::{RuleMemory, RuleTarget, Rules, ToleranceRule};
use mneme_winners::{DimensionRule as LaunchRule, RuleInputs, VERSION, Winners};

use super::recording::in_a_file;
use super::{FuzzTarget, nothing};

pub const WINNERS: FuzzTarget =
    FuzzTarget { name: "winners", seeds: winner_seeds, seal: write_checksum, run: run_winners };
pub const EXPRESSION: FuzzTarget =
    FuzzTarget { name: "expression", seeds: expressions, seal: nothing, run: run_expression };
pub const RULES: FuzzTarget = FuzzTarget { name: "rules", seeds: rule_seeds, seal: nothing, run: run_rules };

fn winner_seeds() -> Vec<Vec<u8>> {
    let shape =
        serde_json::json!({"grid": {"x": 40, "y": 1, "z": 1}, "block": {"x": 256, "y": 1, "z": 1}, "shared_mem": 0});
    let winner = serde_json::json!({
        "kernel": "_Z1kPi", "static_hash": 42, "architecture": "cpu", "code": "k.code", "checksum": 1,
        "layout": [[0, 8], [8, 4]], "recorded": shape, "tuned": shape, "arguments": [], "source": "results",
        "folded": {"arguments": [1], "dimensions": true},
        "rule": {"values": {"tile": 2.0}, "derived": [["grid.x", "ceil(args[1] / (block.x * tile))"]]},
    });
    let text = serde_json::json!({"format": VERSION, "winners": [winner]});
    let read: Winners = serde_json::from_value(text).expect("the seed is well-formed");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tuned.json");
    read.save(&path).and_then(|()| std::fs::read(&path)).map(|text| vec![text]).expect("just written")
}

fn run_winners(input: &[u8]) {
    in_a_file(input, |path| {
        let Ok(found) = Winners::load(path) else { return };
        for winner in &found.winners {
            let Some(Ok(rule)) = winner.rule.as_ref().map(LaunchRule::read) else { continue };
            let (recorded, tuned) = (winner.recorded, winner.tuned);
            rule.shape(&RuleInputs { launch: recorded, recorded, tuned, arguments: &[Some(7), None] });
        }
    });
}

fn expressions() -> Vec<Vec<u8>> {
    ["ceil(recorded.grid.x * recorded.block.x / block.x)", "max(1, min(-args[0], 3) % 2)"].map(Into::into).into()
}

fn run_expression(input: &[u8]) {
    let derived = vec![("grid.x".to_owned(), String::from_utf8_lossy(input).into_owned())];
    let _ = LaunchRule { derived, ..LaunchRule::default() }.read();
}

fn rule_seeds() -> Vec<Vec<u8>> {
    let targets = [RuleTarget::Tag("t".into()), RuleTarget::Argument(2), RuleTarget::Address(0x1000_0000_0000)];
    let rules = targets
        .map(|target| ToleranceRule {
            memory: RuleMemory { target, offset: 0, bytes: Some(8) },
            tolerance: Tolerance::default(),
        })
        .into();
    vec![serde_json::to_vec(&Rules { rules, ..Rules::default() }).expect("plain data serialises")]
}

fn run_rules(input: &[u8]) {
    let _ = Rules::parse(std::path::Path::new("42.tolerances.json"), input);
}
