//! Writes a comparison as text, JSON, JUnit XML and Markdown.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use mneme_model::device::CPU_DEVICE;
use mneme_model::result::Environment;
use mneme_model::{text, units};
use mneme_system::files::private;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use super::ReportOptions;
use super::stored::ResultsFile;
use super::verdict::{CaseVerdict, Compared};
use crate::error::CommandError;
use crate::table::{Align, render};

const HEADING: [&str; 7] = ["KERNEL", "INSTANCE", "PIPELINE", "BEFORE", "NOW", "RATIO", "VERDICT"];
/// Characters of a kernel's name in a table.
const NAME: usize = 44;

/// Fails early if a report file cannot be written. Leaves no file behind.
pub fn probe(options: &ReportOptions) -> Result<(), CommandError> {
    let json = options.json.as_deref().filter(|path| !is_standard_output(path));
    let paths = [json, options.junit.as_deref(), options.markdown.as_deref()];
    paths.into_iter().flatten().try_for_each(|path| written(path, try_to_open(path)))
}

fn try_to_open(path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path) {
        // Pipes are opened when the report is written.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
        Ok(_) => File::options().append(true).open(path).map(drop),
        Err(_) => {
            private::options().append(true).create_new(true).open(path)?;
            std::fs::remove_file(path)
        }
    }
}

pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes all requested files, and returns the errors.
pub fn write(
    options: &ReportOptions,
    before: Option<&ResultsFile>,
    after: &ResultsFile,
    compared: &[Compared],
) -> Vec<CommandError> {
    let mut outcomes = Vec::new();
    if let Some(path) = &options.json {
        let before = before.map(|file| &file.environment);
        let document = json!({ "before": before, "environment": after.environment, "results": compared });
        let text = format!("{document:#}\n");
        outcomes.push(if is_standard_output(path) {
            crate::output::print(&text)
        } else {
            written(path, private::write(path, text))
        });
    }
    if let Some(path) = &options.junit {
        let file = private::create(path);
        let all = file.and_then(|file| junit(compared).serialize(file).map_err(std::io::Error::other));
        outcomes.push(written(path, all));
    }
    if let Some(path) = &options.markdown {
        let file = private::options().append(true).create(true).open(path);
        let text = markdown(before, after, compared);
        outcomes.push(written(path, file.and_then(|mut file| file.write_all(text.as_bytes()))));
    }
    outcomes.into_iter().filter_map(Result::err).collect()
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
        let _ = writeln!(text, "{}: {}", it.case, it.error);
    }
    let _ = writeln!(text, "{}", summary(before, after, compared));
    text
}

fn markdown(before: Option<&ResultsFile>, after: &ResultsFile, compared: &[Compared]) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = row(&HEADING.map(str::to_lowercase));
    text += "| --- | --- | --- | ---: | ---: | ---: | --- |\n";
    let escaped = |text: &str| text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*").replace('\n', " ");
    for it in compared {
        text += &row(&cells(it).map(|cell| escaped(&cell)));
    }
    text.push('\n');
    let mut reasons = compared.iter().filter(|it| !it.error.is_empty()).peekable();
    let separator = if reasons.peek().is_some() { "\n" } else { "" };
    for it in reasons {
        let _ = writeln!(text, "- {}: {}", escaped(&it.case.to_string()), escaped(&it.error));
    }
    text += separator;
    let _ = writeln!(text, "{}\n", summary(before, after, compared));
    text
}

fn junit(compared: &[Compared]) -> Report {
    let mut suite = TestSuite::new("mneme");
    for it in compared {
        let status = match it.verdict {
            CaseVerdict::NotComparable => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(it.error.clone());
                status
            }
            verdict if !verdict.fails() => TestCaseStatus::success(),
            verdict => {
                let kind = match verdict {
                    CaseVerdict::Unproven | CaseVerdict::Inconclusive | CaseVerdict::Untested => NonSuccessKind::Error,
                    _ => NonSuccessKind::Failure,
                };
                let mut status = TestCaseStatus::non_success(kind);
                let why = if it.error.is_empty() {
                    format!("it takes {} times as long", ratio(it))
                } else {
                    it.error.clone()
                };
                status.set_type(verdict.name().to_lowercase()).set_message(why);
                status
            }
        };
        let mut test = TestCase::new(format!("{} {}", it.case.instance, it.case.pipeline()), status);
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
        it.case.pipeline().to_owned(),
        time(it.before),
        time(it.after),
        ratio(it),
        it.verdict.name().to_owned(),
    ]
}

fn ratio(it: &Compared) -> String {
    it.ratio.map_or(String::new(), |ratio| {
        format!("{} ({} to {})", text::ratio(ratio.estimate), text::ratio(ratio.low), text::ratio(ratio.high))
    })
}

/// The number of each verdict, and the device.
fn summary(before: Option<&ResultsFile>, after: &ResultsFile, compared: &[Compared]) -> String {
    let all = [
        CaseVerdict::Verified,
        CaseVerdict::Same,
        CaseVerdict::Inconclusive,
        CaseVerdict::Faster,
        CaseVerdict::Slower,
        CaseVerdict::NotComparable,
        CaseVerdict::Broken,
        CaseVerdict::Unproven,
        CaseVerdict::Untested,
        CaseVerdict::Missing,
    ];
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
    let compilers = match (before.map(ResultsFile::compilers), after.compilers()) {
        (Some(before), now) if before != now && !before.is_empty() && !now.is_empty() => {
            format!(", compiled by LLVM {now} (before: {before})")
        }
        _ => String::new(),
    };
    let caution = if after.environment.device == CPU_DEVICE {
        "; times of the CPU device depend on this machine's other load, and say nothing about a GPU"
    } else {
        ""
    };
    format!("{} on {place}{compilers}{caution}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use mneme_model::result::ReplayStatus;

    use super::super::stored::{CaseName, CaseResult};
    use super::super::verdict::compare;
    use super::*;

    fn file(timer: &str, passes: &str) -> ResultsFile {
        let case =
            CaseName { kernel: "k(int*)".into(), static_hash: "1".into(), instance: "2".into(), passes: passes.into() };
        let times = vec![1000; 11];
        let result = CaseResult {
            case,
            status: ReplayStatus::Verified,
            error: String::new(),
            times,
            starts: 5,
            timer: timer.into(),
            llvm: "19.1.7".into(),
            registers: 8,
        };
        ResultsFile::new(vec![result], Environment::default())
    }

    #[test]
    fn other_compilers_are_named() {
        let (before, mut after) = (file("events", ""), file("events", ""));
        assert!(!text(Some(&before), &after, &[]).contains("LLVM"));
        after.results[0].llvm = "22.1.8".into();
        let text = text(Some(&before), &after, &[]);
        assert!(text.contains("compiled by LLVM 22.1.8 (before: 19.1.7)"), "{text}");
    }

    #[test]
    fn what_is_not_comparable_is_named_everywhere() {
        let (before, after) = (file("cupti", ""), file("events", ""));
        let compared = compare(Some(&before), &after, 0.05);
        let reason = "timed by cupti before, but by events now";
        let text = text(Some(&before), &after, &compared);
        assert!(text.contains(&format!("k(int*) 2 as recorded: {reason}\n1 not comparable on no device\n")), "{text}");
        let markdown = markdown(Some(&before), &after, &compared);
        let listed = format!("|\n\n- k(int\\*) 2 as recorded: {reason}\n\n1 not comparable on no device\n\n");
        assert!(markdown.ends_with(&listed), "{markdown}");
        let junit = junit(&compared).to_string().unwrap();
        assert!(junit.contains(r#"skipped="1" failures="0""#) && junit.contains(reason), "{junit}");
        let json = serde_json::to_value(&compared).unwrap();
        assert_eq!((&json[0]["verdict"], &json[0]["ratio"]), (&json!("not_comparable"), &json!(null)));
        assert_eq!(
            (&json[0]["result_before"]["timer"], &json[0]["result"]["timer"]),
            (&json!("cupti"), &json!("events"))
        );
        assert_eq!((&json[0]["result"]["status"], &json[0]["result"]["times"][10]), (&json!("verified"), &json!(1000)));
    }

    #[test]
    fn a_table_of_markdown_is_followed_by_its_summary() {
        let (before, after) = (file("events", ""), file("events", ""));
        let markdown = markdown(Some(&before), &after, &compare(Some(&before), &after, 0.05));
        assert!(markdown.ends_with("| same |\n\n1 same on no device\n\n"), "{markdown}");
    }

    #[test]
    fn files_that_cannot_be_written_are_found_and_none_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        let (new, old) = (scratch.path().join("new.xml"), scratch.path().join("old.md"));
        std::fs::write(&old, "mine").unwrap();
        let options = |junit: &Path, markdown: &Path| ReportOptions {
            threshold: 5.0,
            json: Some("-".into()),
            junit: Some(junit.into()),
            markdown: Some(markdown.into()),
        };
        probe(&options(&new, &old)).unwrap();
        probe(&options(Path::new("/dev/null"), &old)).unwrap();
        assert!(!new.exists());
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "mine");
        for bad in [scratch.path(), &scratch.path().join("none/report.xml")] {
            let refused = probe(&options(&old, bad)).unwrap_err().to_string();
            assert!(refused.starts_with(&bad.display().to_string()), "{refused}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_does_not_stand_in_the_way_of_others() {
        let scratch = tempfile::tempdir().unwrap();
        let options = ReportOptions {
            threshold: 5.0,
            json: Some("/dev/full".into()),
            junit: Some(scratch.path().join("none/report.xml")),
            markdown: Some(scratch.path().join("summary.md")),
        };
        let after = file("events", "");
        let errors = write(&options, None, &after, &compare(None, &after, 0.05));
        assert_eq!(errors.len(), 2, "{errors:?}");
        let summary = std::fs::read_to_string(scratch.path().join("summary.md")).unwrap();
        assert!(summary.contains("1 verified on "), "{summary}");
    }
}
