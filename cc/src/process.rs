//! Running compilers: statuses, logged commands, IR, and warnings about sources.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, bail};

/// Set for compilers that mneme-cc starts. A wrapper that finds it leaves the job to the outer one.
pub const ACTIVE: &str = "MNEME_CC_ACTIVE";

/// The status that a shell would report.
pub fn code(status: ExitStatus) -> u8 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

/// Splits a logged command into words. Each is in double quotes, with backslashes before `"`, `\` and `$`.
pub fn quoted(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = line.chars();
    while characters.by_ref().any(|c| c == '"') {
        let mut word = String::new();
        while let Some(c) = characters.next().filter(|c| *c != '"') {
            word.extend(if c == '\\' { characters.next() } else { Some(c) });
        }
        words.push(word);
    }
    words
}

/// Runs a clang that writes IR to `output`, and reads the file. If clang fails, the error is the first that it prints.
pub fn written_ir(command: &mut Command, output: &Path) -> anyhow::Result<Vec<u8>> {
    let run = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run", Path::new(command.get_program()).display()))?;
    if !run.status.success() {
        let words = String::from_utf8_lossy(&run.stderr);
        bail!("{}", words.lines().find(|line| line.contains("error")).unwrap_or("clang gives no reason").trim());
    }
    std::fs::read(output).context("clang's IR cannot be read")
}

/// Runs a step of a command that mneme-cc has split. Shows the step's messages if it succeeds.
///
/// # Errors
/// If the step cannot be run, or the first error that it prints.
pub fn step(command: &mut Command) -> anyhow::Result<()> {
    let run = command
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("{} cannot be run", Path::new(command.get_program()).display()))?;
    if !run.status.success() {
        let words = String::from_utf8_lossy(&run.stderr);
        let error = words.lines().find(|line| line.contains("error") || line.contains("fatal"));
        bail!("{}", error.unwrap_or("the compiler gives no reason").trim());
    }
    // A closed standard error cannot be reported.
    let _ = std::io::stderr().write_all(&run.stderr);
    Ok(())
}

/// Warns why a source gets no IR. The warning names the source, because the object may be temporary.
pub fn warn(source: &Path, reason: &str) {
    mneme_system::remark!("mneme-cc: warning: {} gets no LLVM IR: {reason}", source.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_are_read_as_they_were() {
        assert_eq!(quoted(r#" "-D" "S=\"a b\"""#), ["-D", r#"S="a b""#]);
    }
}
