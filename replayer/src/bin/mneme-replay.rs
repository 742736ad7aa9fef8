//! mneme-replay: re-executes one recorded kernel under any configuration and verifies it.

use std::process::exit;

use mneme_replayer::arguments::Arguments;
use mneme_replayer::{program, scene, serve};

fn main() {
    let arguments = Arguments::read(std::env::args_os()).unwrap_or_else(|error| program::usage(&error));
    program::log(arguments.common().level);
    match scene::run(&arguments) {
        Ok(status) => exit(status),
        Err(fatal) => {
            program::try_again(&fatal);
            if let Arguments::Serve(_) = arguments {
                serve::report(&fatal);
            }
            eprintln!("mneme-replay: {fatal}");
            exit(fatal.status)
        }
    }
}
