//! Compiles every application of `tests/apps` into a folder, for machines that have a GPU and no compiler:
//! `build-apps FOLDER` makes `FOLDER/shared/NAME` and `FOLDER/static/NAME`.

use std::path::PathBuf;

use mneme_e2e::apps::{APPS, build};
use mneme_e2e::installation::Cudart;

fn main() {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: build-apps FOLDER");
        std::process::exit(mneme_core::exit::BAD_USAGE);
    };
    for cudart in [Cudart::Shared, Cudart::Static] {
        for app in APPS {
            build(app, cudart, &folder.join(cudart.name()).join(app.name));
        }
    }
}
