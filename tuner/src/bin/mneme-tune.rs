//! `mneme-tune`: finds the fastest configuration of a recorded kernel.

use std::process::exit;

use clap::{CommandFactory, Parser};
use mneme_tuner::options::{self, Options};
use mneme_tuner::{report, tune};

/// Options that may be written with one dash.
const ONE_DASH: [&str; 2] = ["rdb", "rid"];

fn main() {
    mneme_core::console::size_limit_as_error();
    mneme_manual::write_if_asked(|| Options::command().subcommand(report::command::manual()));
    let mut arguments = mneme_core::arguments::normalise(std::env::args_os(), &ONE_DASH);
    if arguments.get(1).is_some_and(|word| word == "report") {
        arguments.remove(1);
        exit(mneme_tuner::report::command::run(arguments));
    }
    let options = Options::try_parse_from(arguments).unwrap_or_else(|error| exit(options::refuse(&error)));
    exit(tune::run(options).unwrap_or_else(|error| {
        mneme_core::remark!("mneme-tune: {error}");
        error.exit_status()
    }));
}
