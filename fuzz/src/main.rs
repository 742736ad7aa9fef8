//! `mneme-fuzz RUNS [SEED]`: so many inputs, shared by all targets; stops at the first that breaks its parser.

#[global_allocator]
static ALLOCATOR: mneme_fuzz::allocation::Limited = mneme_fuzz::allocation::Limited;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Some(Ok(runs)), Ok(seed)) = (numbers.next(), numbers.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: mneme-fuzz RUNS [SEED]");
        std::process::exit(mneme_core::exit::BAD_USAGE);
    };
    for target in mneme_fuzz::targets::TARGETS {
        let share = runs.div_ceil(mneme_fuzz::targets::TARGETS.len() as u64);
        let start = std::time::Instant::now();
        mneme_fuzz::mutation::run(target, share, seed);
        println!("{}: {share} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
    }
}
