//! `mneme-tune`: finds the fastest configuration of a recorded kernel.

use std::process::exit;

use clap::{CommandFactory, Parser};
use mneme_builds::nvrtc;
use mneme_system::files::trust;
use mneme_system::install;
use mneme_tuner::evaluate::{self, EvaluateOptions};
use mneme_tuner::options::{self, Options};
use mneme_tuner::report::command::{self, ReportOptions};
use mneme_tuner::report::compare::{self, CompareOptions};
use mneme_tuner::tune;

/// Options that may be written with one dash.
const ONE_DASH: [&str; 3] = ["rdb", "rid", "record-id"];

// Without a doc comment: clap would show it instead of the description of `Options`.
#[derive(Parser)]
#[command(name = "mneme-tune", version, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Subcommand)]
enum Command {
    Report(ReportOptions),
    Compare(CompareOptions),
    Evaluate(Box<EvaluateOptions>),
}

fn main() {
    mneme_system::files::size_limit::ignore_signal();
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if words.get(1).is_some_and(|word| word == nvrtc::COMMAND) {
        exit(nvrtc::run(&words[2..]));
    }
    mneme_manual::write_if_requested(CommandLine::command);
    let arguments = mneme_system::arguments::normalise(std::env::args_os(), &ONE_DASH);
    let CommandLine { command, options } =
        CommandLine::try_parse_from(arguments).unwrap_or_else(|error| exit(options::refuse(&error)));
    if let Err(wrong) = trust::add(&options.trust).and_then(|()| install::check_home()) {
        mneme_system::remark!("mneme-tune: {wrong}");
        exit(mneme_system::exit::BAD_USAGE);
    }
    match command {
        Some(Command::Report(options)) => exit(command::run(&options)),
        Some(Command::Compare(options)) => exit(compare::run(&options)),
        Some(Command::Evaluate(options)) => exit(evaluate::run(&options)),
        None => {}
    }
    exit(tune::run(options).unwrap_or_else(|error| {
        mneme_system::remark!("mneme-tune: {error}");
        error.exit_status()
    }));
}
