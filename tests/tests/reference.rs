//! A test that docs/reference/commands.md matches the programs' help.
//!
//! `MNEME_UPDATE_DOCS=1 cargo test -p mneme-e2e --test reference` rewrites it.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use mneme_e2e::installation::program;

/// Program and subcommand of each section.
const COMMANDS: [(&str, &[&str]); 29] = [
    ("mneme", &[]),
    ("mneme", &["record"]),
    ("mneme", &["profile"]),
    ("mneme", &["ls"]),
    ("mneme", &["show"]),
    ("mneme", &["annotate"]),
    ("mneme", &["fsck"]),
    ("mneme", &["clean"]),
    ("mneme", &["move"]),
    ("mneme", &["copy"]),
    ("mneme", &["minimize"]),
    ("mneme", &["apply"]),
    ("mneme", &["learn"]),
    ("mneme", &["test"]),
    ("mneme", &["compare"]),
    ("mneme", &["export"]),
    ("mneme", &["doctor"]),
    ("mneme", &["config"]),
    ("mneme-replay", &[]),
    ("mneme-replay", &["sweep"]),
    ("mneme-replay", &["serve"]),
    ("mneme-tune", &[]),
    ("mneme-tune", &["report"]),
    ("mneme-tune", &["compare"]),
    ("mneme-tune", &["evaluate"]),
    ("mneme-bisect", &[]),
    ("mneme-build-19", &[]),
    ("mneme-cc", &[]),
    ("mneme-mcp", &[]),
];

fn help(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(program(name)).args(arguments).arg("--help").output().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn the_reference_of_commands_is_current() {
    let mut text = String::from(
        "# Commands\n\nThis is what the programs say of themselves with `--help`. `mneme replay`, `mneme tune` and `mneme bisect` are\n\
         `mneme-replay`, `mneme-tune` and `mneme-bisect`, and `mneme evaluate` is `mneme-tune evaluate`.\n",
    );
    for (name, arguments) in COMMANDS {
        let title = [&[name], arguments].concat().join(" ");
        write!(text, "\n## {title}\n\n```text\n{}\n```\n", help(name, arguments).trim_end()).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/commands.md");
    if std::env::var_os("MNEME_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let different = written.lines().zip(text.lines()).find(|(written, said)| written != said);
    assert!(
        written == text,
        "commands.md is stale ({different:?}): run MNEME_UPDATE_DOCS=1 cargo test -p mneme-e2e --test reference"
    );
}
