//! Verdicts of `mneme-tune evaluate` on candidates that the server only measures.

use mneme_model::evaluation::Judgement;
use mneme_system::exit;

use crate::home::Home;

const OPTIONS: [&str; 9] =
    ["evaluate", "-rdb", "5.json", "--config", "c.json", "--confirm-time", "9", "--counters", "dram__bytes.sum"];

#[test]
fn counters_stand_beside_those_of_the_application_s_code() {
    let home = Home::new();
    std::fs::write(home.path("c.json"), r#"{"block": {"x": 8}}"#).unwrap();
    let output = home.command(&OPTIONS).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let judgement: Judgement = serde_json::from_slice(&output.stdout).unwrap();
    let counted = judgement.counters["dram__bytes.sum"];
    assert_eq!((counted.candidate, counted.baseline), (800.0, 400.0), "{judgement:?}");
    assert!(judgement.feedback.contains("dram__bytes.sum: 800 (the application's own code: 400)"), "{judgement:?}");
    assert_eq!(judgement.floor, None, "the server does not tell what is touched");
}

#[test]
fn counters_that_are_not_counted_end_the_evaluation_before_any_verdict() {
    let home = Home::new();
    std::fs::write(home.path("c.json"), r#"{"block": {"x": 8}}"#).unwrap();
    let output = home.command(&OPTIONS).env("STUB_UNCOUNTED", "the driver forbids it").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(exit::BAD_USAGE), "{stderr}");
    assert!(stderr.contains("--counters dram__bytes.sum: the driver forbids it"), "{stderr}");
    assert!(output.stdout.is_empty());
}
