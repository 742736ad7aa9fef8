//! The command `mneme doctor`, which checks this machine and gives a remedy for each problem.

mod gpu;
mod parts;
mod system;

use clap::Args;
use serde::Serialize;

use crate::error::CommandError;
use crate::output::print;

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    Ok,
    /// An optional part is missing.
    Absent,
    /// Recording, replaying or tuning fails without it.
    Missing,
}

/// The check of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A stable name, for programs.
    pub name: &'static str,
    pub state: CheckState,
    /// The finding, or the problem.
    pub detail: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Check {
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: CheckState::Ok, detail: detail.into(), remedy: None }
    }

    pub fn absent(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: CheckState::Absent, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    pub fn missing(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: CheckState::Missing, ..Self::absent(name, detail, remedy) }
    }
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    version: &'static str,
    /// Whether recording, replaying and tuning have all required parts.
    healthy: bool,
    checks: &'a [Check],
}

pub fn run(options: &DoctorOptions) -> Result<(), CommandError> {
    let checks = [parts::checks(), system::checks(), gpu::checks()].concat();
    let healthy = checks.iter().all(|check| check.state != CheckState::Missing);
    if options.json {
        let report = Report { version: env!("CARGO_PKG_VERSION"), healthy, checks: &checks };
        print(&(serde_json::to_string_pretty(&report).expect("plain data serialises") + "\n"))?;
    } else {
        print(&text(&checks))?;
    }
    if healthy { Ok(()) } else { std::process::exit(mneme_system::exit::NOT_VERIFIED) }
}

fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { name, state, detail, remedy } in checks {
        let mark = match state {
            CheckState::Ok => "ok",
            CheckState::Absent => "absent",
            CheckState::Missing => "MISSING",
        };
        text += &format!("{mark:<8} {name:<12} {detail}\n");
        if let Some(remedy) = remedy {
            text += &format!("{:<21} -> {remedy}\n", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_a_remedy_below_it() {
        let checks = [Check::ok("glibc", "2.36"), Check::missing("builders", "none", "install one")];
        let text = text(&checks);
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.starts_with("ok       glibc")
                && text.contains("\nMISSING  builders")
                && text.ends_with("-> install one\n")
        );
        let json = serde_json::to_value(&checks).unwrap();
        assert_eq!((&json[1]["state"], json[0].get("remedy")), (&"missing".into(), None));
    }
}
