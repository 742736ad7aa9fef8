//! Tests of the stand-in for libamdhip64: right calls, and planted mistakes.

mod code;
mod device;
mod library;
mod mistakes;
mod profiler;
mod right;
mod timing;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use library::Hip;

/// The number of the case that a process runs. The tests set it in processes that they start.
const CASE: &str = "MNEME_TEST_CASE";
const SIGABRT: i32 = 6;

/// Runs a case of the test `name` of this program in a separate process.
fn run(name: &str, case: usize, variables: &[(&str, &str)]) -> Output {
    let folder = code::folder();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads", "1"]).env(CASE, case.to_string());
    command.env("MNEME_STAND_IN_IR", folder.path()).envs(variables.iter().copied());
    command.output().unwrap()
}

/// The case of this process.
fn own_case() -> Option<usize> {
    std::env::var(CASE).ok()?.parse().ok()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn what_is_right_is_done_and_leaves_nothing() {
    match own_case() {
        Some(_) => right::everything(&Hip::load()),
        None => {
            let output = run("what_is_right_is_done_and_leaves_nothing", 0, &[("MNEME_STAND_IN_LEAKS", "1")]);
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}

/// Checks that each mistake, made by this test in a separate process, ends that process with the expected sentence.
fn each_ends_the_process(name: &str, mistakes: &[mistakes::Mistake]) {
    if let Some(case) = own_case() {
        (mistakes[case].2)(&Hip::load());
        return;
    }
    assert!(mistakes.len() >= 30);
    let failures: Vec<String> = mistakes
        .iter()
        .enumerate()
        .filter_map(|(case, (function, sentence, _))| {
            let output = run(name, case, &[]);
            let said = text(&output);
            let line = said.lines().find(|line| line.starts_with("stand-in for libamdhip64: "));
            let is_told = line.is_some_and(|line| line.contains(&format!(": {function}: ")) && line.contains(sentence));
            (output.status.signal() != Some(SIGABRT) || !is_told).then(|| format!("{function}, {sentence}: {said}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_mistake_ends_the_process_with_a_sentence() {
    each_ends_the_process("each_mistake_ends_the_process_with_a_sentence", mistakes::MISTAKES);
}

#[test]
fn so_does_each_that_the_profiling_library_is_called_with() {
    each_ends_the_process("so_does_each_that_the_profiling_library_is_called_with", profiler::MISTAKES);
}

#[test]
fn the_profiling_library_tells_of_kernels() {
    match own_case() {
        Some(_) => profiler::everything(&Hip::load()),
        None => {
            let output = run("the_profiling_library_tells_of_kernels", 0, &[("MNEME_STAND_IN_LEAKS", "1")]);
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}

#[test]
fn what_is_left_of_the_profiling_library_is_told() {
    if own_case().is_some() {
        profiler::leave_something(&Hip::load());
        return;
    }
    let output = run("what_is_left_of_the_profiling_library_is_told", 0, &[("MNEME_STAND_IN_LEAKS", "1")]);
    let said = text(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    let left = "1 started contexts of the profiler, 1 buffers of the profiler, 1 pushed correlations";
    assert!(said.contains(left), "{said}");
}

#[test]
fn series_are_timed_by_it_or_left_to_events() {
    const NAME: &str = "series_are_timed_by_it_or_left_to_events";
    if let Some(case) = own_case() {
        timing::series(case);
        return;
    }
    let library = Hip::path().to_string_lossy().into_owned();
    for (case, (settings, _)) in timing::CASES.iter().enumerate() {
        // A device's streams and events last as long as the process, but the profiling library's objects do not.
        let variables = [
            ("MNEME_STAND_IN_PROFILER", *settings),
            ("MNEME_ROCPROFILER_LIBRARY", &library),
            ("MNEME_STAND_IN_LEAKS", "1"),
        ];
        let said = text(&run(NAME, case, &variables));
        assert!(said.contains("1 passed") && !said.contains("profiler,"), "{settings}: {said}");
        assert!(said.contains("never freed: 1 streams, 2 events\n"), "{settings}: {said}");
    }
}

#[test]
fn a_library_that_is_not_known_is_not_used() {
    if let Some(case) = own_case() {
        timing::refused(case);
        return;
    }
    let library = Hip::path().to_string_lossy().into_owned();
    for (case, (settings, _)) in timing::UNUSED.iter().enumerate() {
        let variables = [("MNEME_STAND_IN_PROFILER", *settings), ("MNEME_ROCPROFILER_LIBRARY", &library)];
        let output = run("a_library_that_is_not_known_is_not_used", case, &variables);
        assert!(output.status.success(), "{settings}: {}", text(&output));
    }
}

#[test]
fn mistakes_are_listed_in_a_file_where_one_is_named() {
    const NAME: &str = "mistakes_are_listed_in_a_file_where_one_is_named";
    if own_case().is_some() {
        let hip = Hip::load();
        for (.., mistake) in mistakes::MISTAKES.iter().take(3) {
            mistake(&hip);
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mistakes");
    let output = run(NAME, 0, &[("MNEME_STAND_IN_MISTAKES", file.to_str().unwrap())]);
    assert!(output.status.success(), "{}", text(&output));
    let listed = std::fs::read_to_string(file).unwrap();
    assert_eq!(listed.lines().count(), 3, "{listed}");
}

#[test]
fn what_is_left_at_the_end_is_told() {
    if own_case().is_some() {
        right::leave_something(&Hip::load());
        return;
    }
    let output = run("what_is_left_at_the_end_is_told", 0, &[("MNEME_STAND_IN_LEAKS", "1")]);
    let said = text(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("never freed: 2 allocations, 1 streams"), "{said}");
}

#[test]
fn the_device_works_over_it() {
    match own_case() {
        Some(_) => device::everything(),
        None => {
            let output = run("the_device_works_over_it", 0, &[]);
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}
