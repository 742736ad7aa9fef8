//! mneme-bisect: finds the optimisation pass that broke a recorded kernel.

use std::process::exit;

use mneme_replayer::arguments::Bisect;
use mneme_replayer::{bisect, program};

fn main() {
    let options = Bisect::read(std::env::args_os()).unwrap_or_else(|error| program::usage(&error));
    program::log(options.common.level);
    match bisect::run(&options) {
        Ok(status) => exit(status),
        Err(fatal) => {
            program::try_again(&fatal);
            eprintln!("mneme-bisect: {fatal}");
            exit(fatal.status)
        }
    }
}
