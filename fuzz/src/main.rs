//! The program `mneme-fuzz`, which runs the targets on inputs of its own making.
//!
//! `mneme-fuzz RUNS [SEED]`: so many inputs, shared by all targets; stops at the first that breaks its parser.
//! `mneme-fuzz seeds FOLDER` writes the targets' well-formed inputs, a folder for each, which libFuzzer can begin with.

use std::path::Path;

use mneme_fuzz::targets::TARGETS;

#[global_allocator]
static ALLOCATOR: mneme_fuzz::allocation::Limited = mneme_fuzz::allocation::Limited;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seeds", folder] => return write_seeds(Path::new(folder)),
        [runs] | [runs, _] if runs.parse::<u64>().is_ok() => {
            if let Ok(seed) = words.get(1).map_or(Ok(1), |seed| seed.parse()) {
                run(runs.parse().expect("it is a number"), seed);
                return Ok(());
            }
        }
        _ => {}
    }
    eprintln!("usage: mneme-fuzz RUNS [SEED]\n       mneme-fuzz seeds FOLDER");
    std::process::exit(mneme_core::exit::BAD_USAGE);
}

fn run(runs: u64, seed: u64) {
    for target in TARGETS {
        let share = runs.div_ceil(TARGETS.len() as u64);
        let start = std::time::Instant::now();
        mneme_fuzz::mutation::run(target, share, seed);
        println!("{}: {share} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
    }
}

fn write_seeds(folder: &Path) -> std::io::Result<()> {
    for target in TARGETS {
        let own = folder.join(target.name);
        std::fs::create_dir_all(&own)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(own.join(number.to_string()), seed)?;
        }
    }
    Ok(())
}
