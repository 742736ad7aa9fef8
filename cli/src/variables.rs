//! Checks the recorder's environment variables before the application starts.
//!
//! Inside the application, the recorder could only warn.

use std::path::Path;

use mneme_model::architecture::Processor;
use mneme_model::device::MOST_CPU_DEVICES;
use mneme_system::arguments::ValueError;
use mneme_system::files::trust;
use regex_lite::Regex;

use crate::error::CommandError;

const SWITCH: [&str; 8] = ["on", "off", "0", "1", "no", "yes", "false", "true"];

type Check = fn(&str) -> Result<(), ValueError>;

/// Names of variables, with checks that return the error in a value.
const CHECKS: [(&str, Check); 23] = [
    ("MNEME_RR_KERNELS", |text| regular_expression(text).map(drop)),
    ("MNEME_MAX_RECORDINGS", |text| number(text, 0, u64::MAX)),
    ("MNEME_SKIP_RECORDINGS", |text| number(text, 0, u64::MAX)),
    ("MNEME_SAMPLE", |text| number(text, 1, u64::MAX)),
    ("MNEME_PAGE_SIZE", |text| number(text, 1, LARGEST_ARENA)),
    ("MNEME_COMPRESSION_LEVEL", |text| number(text, 1, 22)),
    ("MNEME_KERNEL_LIMIT", |text| number(text, 0, LONGEST_LIMIT)),
    // Its earlier name.
    ("MNEME_IDLE_TIMEOUT", |text| number(text, 0, LONGEST_LIMIT)),
    ("MNEME_LOG_LEVEL", |text| {
        one_of(text, &["error", "warning", "warn", "info", "debug", "critical", "off", "trace", "0", "1", "2", "3"])
    }),
    ("MNEME_ARENA", |text| one_of(text, &SWITCH)),
    ("MNEME_SYNC", |text| one_of(text, &SWITCH)),
    ("MNEME_GRAPHS", |text| one_of(text, &["expand", "whole"])),
    ("MNEME_IR_PATH", paths),
    ("MNEME_BUFFER_MB", |text| number(text, 0, u64::MAX)),
    ("MNEME_CPU_DEVICES", |text| number(text, 1, MOST_CPU_DEVICES as u64)),
    ("MNEME_CPU_THREADS", |text| number(text, 1, u64::MAX)),
    ("MNEME_CPU_GFX", processor),
    ("MNEME_CPU_LOCKSTEP", |text| one_of(text, &["all", "off", "volatile"])),
    ("MNEME_CPU_TIME_LIMIT", |text| number(text, 0, 1_000_000_000)),
    ("MNEME_CPU_ASYNC_AFTER", |text| number(text, 0, 1_000_000_000)),
    ("MNEME_DEVICE", |text| one_of(text, &["auto", "cpu", "cuda", "hip"])),
    ("MNEME_EPILOGUE_TYPE", |text| one_of(text, &EPILOGUE_FORMATS)),
    ("MNEME_RECORD_RANKS", ranks),
];

/// Formats of epilogues: `chunks` is Mneme's own.
pub const EPILOGUE_FORMATS: [&str; 4] = ["chunks", "bytes", "diff", "best"];

/// Limit on a GPU's address space, GiB: a process has 47 bits on x86-64.
pub const LARGEST_ARENA: u64 = 1 << 17;

/// Limit on the time that the application may be held, seconds.
pub const LONGEST_LIMIT: u64 = 1_000_000;

/// Fails at the first variable with an invalid value.
pub fn check() -> Result<(), CommandError> {
    for (name, check) in CHECKS {
        if let Some(text) = std::env::var_os(name).filter(|text| !text.is_empty()) {
            let text = text.to_string_lossy();
            check(text.trim()).map_err(|what| CommandError::Usage(format!("{name} is '{text}'; {what}")))?;
        }
    }
    Ok(())
}

pub fn regular_expression(text: &str) -> Result<String, ValueError> {
    let read = Regex::new(text).map(|_| text.to_owned());
    read.map_err(|error| format!("it is not a regular expression: {error}").into())
}

fn processor(text: &str) -> Result<(), ValueError> {
    let is_one = Processor::parse(text).is_some_and(|processor| processor.name == text);
    if is_one { Ok(()) } else { Err("it must be an AMD processor, such as gfx90a".into()) }
}

fn number(text: &str, least: u64, most: u64) -> Result<(), ValueError> {
    match text.parse::<u64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(()),
        _ if most == u64::MAX => Err(format!("it must be a whole number of at least {least}").into()),
        _ => Err(format!("it must be a whole number from {least} to {most}").into()),
    }
}

fn one_of(text: &str, names: &[&str]) -> Result<(), ValueError> {
    if names.contains(&text.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(format!("it must be one of {}", names.join(", ")).into())
}

fn paths(text: &str) -> Result<(), ValueError> {
    for path in text.split(':').filter(|path| !path.is_empty()) {
        if !Path::new(path).exists() {
            return Err(format!("the file or folder '{path}' does not exist").into());
        }
        trust::check(Path::new(path)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The ranks of `--record-ranks`.
pub fn listed_ranks(text: &str) -> Result<String, ValueError> {
    ranks(text).map(|()| text.to_owned()).map_err(|error| format!("{error}; to choose kernels, pass --kernels").into())
}

fn ranks(text: &str) -> Result<(), ValueError> {
    let is_list = text.split([',', ' ', ';']).filter(|part| !part.is_empty()).all(|part| part.parse::<u64>().is_ok());
    if is_list || text.eq_ignore_ascii_case("all") { Ok(()) } else { Err("it must be 'all' or a list of ranks".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(name: &str, text: &str) -> Option<String> {
        let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).unwrap();
        check(text).err().map(|error| error.to_string())
    }

    #[test]
    fn sensible_values_pass() {
        for (name, text) in [
            ("MNEME_RR_KERNELS", "vec.*"),
            ("MNEME_PAGE_SIZE", "4"),
            ("MNEME_COMPRESSION_LEVEL", "22"),
            ("MNEME_LOG_LEVEL", "DEBUG"),
            ("MNEME_ARENA", "Off"),
            ("MNEME_SYNC", "1"),
            ("MNEME_IR_PATH", "/:"),
            ("MNEME_RECORD_RANKS", "0, 3;5"),
            ("MNEME_RECORD_RANKS", "ALL"),
        ] {
            assert_eq!(complaint(name, text), None, "{name}={text}");
        }
    }

    #[test]
    fn others_are_one_sentence() {
        for (name, text, part) in [
            ("MNEME_RR_KERNELS", "(", "regular expression"),
            ("MNEME_PAGE_SIZE", "0", "from 1 to 131072"),
            ("MNEME_COMPRESSION_LEVEL", "99", "from 1 to 22"),
            ("MNEME_LOG_LEVEL", "loud", "one of error"),
            ("MNEME_SAMPLE", "0", "at least 1"),
            ("MNEME_RECORD_RANKS", "some", "'all'"),
            ("MNEME_GRAPHS", "yes", "expand, whole"),
            ("MNEME_IR_PATH", "/:/nosuch", "'/nosuch'"),
        ] {
            let complaint = complaint(name, text).unwrap();
            assert!(complaint.contains(part) && complaint.lines().count() == 1, "{complaint}");
        }
    }
}
