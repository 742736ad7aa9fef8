//! The program `mneme-fuzz`, which runs the targets on inputs of its own making.
//!
//! `mneme-fuzz RUNS [SEED]`: so many inputs, shared by all targets; stops at the first that breaks its parser.
//! `mneme-fuzz TARGET RUNS [SEED [FOLDER]]`: so many inputs of one target, made of the folder's files, too.
//! `mneme-fuzz seeds FOLDER` writes the targets' well-formed inputs, a folder for each, which libFuzzer can begin with.

use std::path::Path;

use mneme_fuzz::mutation;
use mneme_fuzz::targets::{self, FuzzTarget, TARGETS};

#[global_allocator]
static ALLOCATOR: mneme_fuzz::allocation::Limited = mneme_fuzz::allocation::Limited;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["seeds", folder] = words[..] {
        return write_seeds(Path::new(folder));
    }
    let (only, numbers) = match words.split_first() {
        Some((name, rest)) if targets::target(name).is_some() => (targets::target(name), rest),
        _ => (None, &words[..]),
    };
    let (numbers, folder) = match numbers {
        [numbers @ .., folder] if only.is_some() && numbers.len() == 2 => (numbers, Some(Path::new(folder))),
        numbers => (numbers, None),
    };
    let read: Option<Vec<u64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    match (read.as_deref(), only) {
        (Some(&[runs] | &[runs, _]), only) => {
            let seed = read.as_ref().and_then(|read| read.get(1)).copied().unwrap_or(1);
            let further = folder.map_or(Ok(Vec::new()), inputs)?;
            match only {
                Some(target) => run(target, runs, seed, &further),
                None => TARGETS.iter().for_each(|target| run(target, runs.div_ceil(TARGETS.len() as u64), seed, &[])),
            }
            Ok(())
        }
        _ => {
            eprintln!("usage: mneme-fuzz RUNS [SEED], mneme-fuzz TARGET RUNS [SEED [FOLDER]], mneme-fuzz seeds FOLDER");
            std::process::exit(mneme_system::exit::BAD_USAGE);
        }
    }
}

/// The files of a folder.
fn inputs(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(std::fs::read).collect()
}

fn run(target: &'static FuzzTarget, runs: u64, seed: u64, further: &[Vec<u8>]) {
    let start = std::time::Instant::now();
    mutation::run(target, runs, seed, further);
    println!("{}: {runs} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
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
