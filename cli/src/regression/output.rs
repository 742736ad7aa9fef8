//! A comparison as text, JSON, JUnit's XML and Markdown.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use mneme_core::result::Environment;
use mneme_core::units;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use super::ReportOptions;
use super::stored::{CaseName, ResultsFile};
use super::verdict::{Compared, Verdict};
use crate::error::CommandError;
use crate::table::{Align, render};

const HEADING: [&str; 7] = ["KERNEL", "INSTANCE", "PIPELINE", "BEFORE", "NOW", "RATIO", "VERDICT"];
/// Characters of a kernel's name in a table.
const NAME: usize = 44;

/// Writes the files that were asked for.
pub fn write(
    options: &ReportOptions,
    before: Option<&ResultsFile>,
    after: &ResultsFile,
    compared: &[Compared],
) -> Result<(), CommandError> {
    if let Some(path) = &options.json {
        let before = before.map(|file| &file.environment);
        let document = json!({ "before": before, "environment": after.environment, "results": compared });
        let text = format!("{document:#}\n");
        if path.as_os_str() == "-" {
            crate::print(&text)?;
        } else {
            written(path, std::fs::write(path, text))?;
        }
    }
    if let Some(path) = &options.junit {
        let file = written(path, File::create(path))?;
        let written_all = junit(compared).serialize(file).map_err(std::io::Error::other);
        written(path, written_all)?;
    }
    if let Some(path) = &options.markdown {
        let file = File::options().append(true).create(true).open(path);
        let text = markdown(before, after, compared);
        written(path, file.and_then(|mut file| file.write_all(text.as_bytes())))?;
    }
    Ok(())
}

fn written<T>(path: &Path, result: std::io::Result<T>) -> Result<T, CommandError> {
    result.map_err(|source| CommandError::Io { path: path.into(), source })
}

/// The table for people.
pub fn text(before: Option<&ResultsFile>, after: &ResultsFile, compared: &[Compared]) -> String {
    let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
    rows.extend(compared.iter().map(|it| cells(it).to_vec()));
    let columns = [Align::Left, Align::Right, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left];
    let mut text = render(&columns, &rows);
    for it in compared.iter().filter(|it| !it.error.is_empty()) {
        let _ = writeln!(text, "{}: {}", named(&it.case), it.error);
    }
    let _ = writeln!(text, "{}", summary(before, after, compared));
    text
}

fn markdown(before: Option<&ResultsFile>, after: &ResultsFile, compared: &[Compared]) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = row(&HEADING.map(str::to_lowercase));
    text += "| --- | --- | --- | ---: | ---: | ---: | --- |\n";
    for it in compared {
        text += &row(&cells(it).map(|cell| cell.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")));
    }
    let _ = writeln!(text, "\n{}\n", summary(before, after, compared));
    text
}

fn junit(compared: &[Compared]) -> Report {
    let mut suite = TestSuite::new("mneme");
    for it in compared {
        let status = match it.verdict {
            verdict if !verdict.fails() => TestCaseStatus::success(),
            verdict => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                let why =
                    if it.error.is_empty() { format!("it takes {} of the time", ratio(it)) } else { it.error.clone() };
                status.set_type(verdict.name().to_lowercase()).set_message(why);
                status
            }
        };
        let mut test = TestCase::new(format!("{} {}", it.case.instance, pipeline(&it.case)), status);
        test.set_classname(it.case.kernel.as_str());
        suite.add_test_case(test);
    }
    let mut report = Report::new("mneme test");
    report.add_test_suite(suite);
    report
}

fn cells(it: &Compared) -> [String; 7] {
    let time = |time: Option<f64>| time.map_or(String::new(), units::time);
    let mut name: String = it.case.kernel.chars().take(NAME).collect();
    if name.len() < it.case.kernel.len() {
        name.push('…');
    }
    [
        name,
        it.case.instance.clone(),
        pipeline(&it.case).to_owned(),
        time(it.before),
        time(it.after),
        ratio(it),
        it.verdict.name().to_owned(),
    ]
}

fn ratio(it: &Compared) -> String {
    it.ratio.map_or(String::new(), |ratio| format!("{:.3} ({:.3} to {:.3})", ratio.estimate, ratio.low, ratio.high))
}

fn pipeline(case: &CaseName) -> &str {
    if case.passes.is_empty() { "as recorded" } else { &case.passes }
}

fn named(case: &CaseName) -> String {
    format!("{} {} {}", case.kernel, case.instance, pipeline(case))
}

/// How many of each verdict there are, and where they ran.
fn summary(before: Option<&ResultsFile>, after: &ResultsFile, compared: &[Compared]) -> String {
    let all = [Verdict::Verified, Verdict::Same, Verdict::Faster, Verdict::Slower, Verdict::Broken, Verdict::Missing];
    let counts = all.map(|verdict| (compared.iter().filter(|it| it.verdict == verdict).count(), verdict.name()));
    let counts: Vec<_> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
    let place = |environment: &Environment| match environment.device.as_str() {
        "" => "no device".to_owned(),
        device if environment.driver.is_empty() => device.to_owned(),
        device => format!("{device}, driver {}", environment.driver),
    };
    let now = place(&after.environment);
    let place = match before.map(|file| place(&file.environment)) {
        Some(before) if before != now => format!("{now} (before: {before})"),
        _ => now,
    };
    format!("{} on {place}", counts.join(", "))
}
