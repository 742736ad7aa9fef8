//! The report of a bisection, as text and as JSON.

use std::io::IsTerminal;

use mneme_builds::spec::FAULT;
use mneme_model::units::counted;
use mneme_system::console::{self, plain};
use mneme_system::exit;

use super::finding::{BisectFinding, Verdict};
use crate::cli::{Bisect, ColorChoice, FailureKind};
use crate::error::Fatal;

/// Lines of a difference to show. The file has all of them.
const SHOWN: usize = 60;

/// Prints the text to standard error and, on request, JSON to standard output.
pub fn print(finding: &BisectFinding, options: &Bisect) -> Result<(), Fatal> {
    let colours = match options.color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    };
    console::painted(text(finding, colours).trim_end());
    if options.json {
        let json = serde_json::to_string_pretty(finding).expect("plain data serialises") + "\n";
        console::write(&json).map_err(|error| {
            Fatal::new(exit::INTERNAL, format!("the result cannot be written to standard output: {error}"))
        })?;
    }
    Ok(())
}

fn text(finding: &BisectFinding, colours: bool) -> String {
    // Only our own colours reach the terminal: text from recordings and compilers is escaped first.
    let lines = std::cell::RefCell::new(String::new());
    let push = |words: &str| {
        let mut lines = lines.borrow_mut();
        lines.push_str(words);
        lines.push('\n');
    };
    let line = |words: &str| push(&plain(words));
    let paint = |code: &str, text: &str| {
        let text = plain(text);
        if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into_owned() }
    };
    push(&format!("{}: {}", paint("1", finding.verdict.description()), plain(&finding.summary)));
    line(&format!("  compared with  {}", finding.reference));
    if let Some((reference, figure)) = finding.figures {
        let (unit, factor) = if finding.failing == FailureKind::Slow { ("µs", 1e-3) } else { ("registers", 1.0) };
        line(&format!(
            "  measured       {:.1} {unit}, the reference {:.1} {unit}",
            figure * factor,
            reference * factor
        ));
    }
    if finding.verdict != Verdict::Good && !finding.error.is_empty() {
        line(&format!("  how it fails   {}", finding.error));
    }
    if finding.verdict != Verdict::Good && !finding.hint.is_empty() && !finding.summary.contains(&finding.hint) {
        line(&format!("  hint           {}", finding.hint));
    }
    if let Some(writer) = &finding.writer {
        let writer = crate::report::observed::last_write_text(writer);
        line(&format!("  written by     {}", writer.trim_end().replace('\n', "\n               ")));
    }
    for evidence in &finding.evidence {
        line(&format!("  evidence       {evidence}"));
    }
    if let Some(files) = &finding.files {
        if !files.diff.is_empty() {
            let lines = if files.removed == 1 { "line" } else { "lines" };
            line(&format!(
                "  what it did    {} {lines} removed and {} added in {}:",
                files.removed, files.added, files.function
            ));
            let lines: Vec<&str> = files.diff.lines().skip(2).collect();
            for shown in lines.iter().take(SHOWN) {
                let colour = match shown.as_bytes().first() {
                    Some(b'-') => "31",
                    Some(b'+') => "32",
                    Some(b'@') => "36",
                    _ => "0",
                };
                push(&paint(colour, shown));
            }
            if lines.len() > SHOWN {
                line(&format!("… {} more lines in {}", lines.len() - SHOWN, files.diff_file));
            }
        }
        // LLVM's tools do not have the planted fault.
        if let Some(opt) = files.opt.as_ref().filter(|opt| !opt.contains(FAULT)) {
            line(&format!("  alone          opt -passes='{opt}' before.ll"));
        }
        line(&format!("  written to     {}", files.folder.display()));
        if let Some((whole, reduced)) = files.instructions {
            line(&format!("  reproducer     reduced.ll, {reduced} of {whole} instructions"));
        }
    }
    let effort = finding.effort;
    line(&format!(
        "  {} for {} in {:.2} s, {:.2} s of it for the search",
        counted(effort.builds as usize, "build"),
        counted(effort.replays as usize, "replay"),
        effort.seconds,
        effort.search_seconds
    ));
    lines.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::finding::{Culprit, Files};
    use mneme_builds::progress::Invocation;

    #[test]
    fn a_finding_reads_well_with_and_without_colours() {
        let pass = Invocation { number: 3, pass: "gvn".into(), unit: "function f".into() };
        let culprit = Culprit { pass, of: Some(9), from: 3 };
        let finding = BisectFinding {
            verdict: Verdict::IrPass,
            summary: culprit.to_string(),
            pass: Some(culprit),
            error: "1 element differs".into(),
            files: Some(Files {
                function: "f".into(),
                removed: 1,
                added: 1,
                diff: "--- a\n+++ b\n@@ 1 @@\n-x\n+y\n".into(),
                ..Files::default()
            }),
            ..BisectFinding::unclear(FailureKind::Wrong, "default<O3>", "default<O0>")
        };
        let plain = text(&finding, false);
        assert!(
            plain.starts_with("an IR pass: pass 3 of 9: gvn on function f\n") && plain.contains("\n-x\n+y\n"),
            "{plain}"
        );
        assert!(plain.contains("1 line removed and 1 added in f:"), "{plain}");
        assert!(text(&finding, true).contains("\x1b[31m-x\x1b[0m"));
        let json = serde_json::to_value(&finding).unwrap();
        assert_eq!((json["verdict"].as_str(), json["pass"]["number"].as_u64()), (Some("ir_pass"), Some(3)));
    }
}
