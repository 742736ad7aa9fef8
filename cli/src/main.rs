//! The program `mneme`, which records kernels and manages recordings.
//!
//! Its subcommands include the other programs of the installation.

// `print!` panics if standard output is closed. Use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod annotate;
mod application;
mod apply;
mod config;
mod device;
mod doctor;
mod error;
mod export;
mod fsck;
mod hip_library;
mod learn;
mod list;
mod manage;
mod memory_file;
mod minimize;
mod output;
mod own_folder;
mod parallel;
mod profile;
mod program;
mod record;
mod regression;
mod replay;
mod report;
mod selection;
mod show;
mod siblings;
mod source;
mod staging;
mod standalone;
mod table;
mod variables;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::exit;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use mneme_system::files::trust;
use mneme_system::install;

use self::error::CommandError;

/// Options that may be written with one dash.
const ONE_DASH: [&str; 7] = ["rdb", "rid", "record-id", "vass", "mr", "rr", "sr"];

/// Record GPU kernels of a program, replay them in isolation, tune them
#[derive(Debug, Parser)]
#[command(name = "mneme", version, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// Detail of the messages of record, profile, apply, replay and bisect, if it comes before the command
    #[arg(short = 'v', long, value_name = "LEVEL", value_parser = application::levels())]
    verbosity: Option<String>,
    /// Trust this folder and everything in it, whoever owns it; may be repeated [default: MNEME_TRUST]
    #[arg(long, value_name = "FOLDER", global = true)]
    trust: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program and record its kernels; exits with the program's status
    #[command(after_help = RECORD_EXAMPLES)]
    Record(record::RecordOptions),
    /// Run a program and rank its kernels by GPU time; exits with the program's status
    #[command(after_help = PROFILE_EXAMPLES)]
    Profile(profile::ProfileOptions),
    /// Run a program with tuned kernels instead of its own; exits with the program's status
    #[command(after_help = APPLY_EXAMPLES, override_usage = "mneme apply --tuned <RESULTS>... [OPTIONS] -- <APPLICATION>...\n       mneme apply --tuned <RESULTS>... --manifest <FILE>\n       mneme apply --specialize | --learn <FOLDER> [OPTIONS] -- <APPLICATION>...")]
    Apply(apply::ApplyOptions),
    /// Tune the kernels that mneme apply --learn recorded, for its next start
    #[command(after_help = LEARN_EXAMPLES)]
    Learn(learn::LearnOptions),
    /// Replay a recorded kernel and verify what it writes (mneme-replay)
    #[command(disable_help_flag = true)]
    Replay(Handover),
    /// Find the fastest configuration of a recorded kernel (mneme-tune)
    #[command(disable_help_flag = true)]
    Tune(Handover),
    /// Judge proposed sources, changes, IR, PTX or configurations for a recorded kernel (mneme-tune evaluate)
    #[command(disable_help_flag = true)]
    Evaluate(Handover),
    /// Find the pass or other cause that broke a recorded kernel (mneme-bisect)
    #[command(disable_help_flag = true)]
    Bisect(Handover),
    /// List recorded kernels and instances
    #[command(
        after_help = "Examples:\n  mneme ls\n  mneme ls recording --kernel stencil\n\nSEEN counts launches: those that agree in shape and scalar arguments are one instance."
    )]
    Ls(list::ListOptions),
    /// Show everything about recorded kernels
    #[command(after_help = "Examples:\n  mneme show recording\n  mneme show recording --kernel stencil --json")]
    Show(show::ShowOptions),
    /// Set how the memory of recorded kernels is compared; without a target, list the rules
    #[command(after_help = ANNOTATE_EXAMPLES)]
    Annotate(annotate::AnnotateOptions),
    /// Read a whole recording and report damage; exits with 65 if there is any
    #[command(
        alias = "check",
        after_help = "Example:\n  mneme fsck recording\n\nTo check a kernel for invalid memory accesses, use mneme replay --check."
    )]
    Fsck(fsck::FsckOptions),
    /// Remove recordings, and the memory that no other recording in their folder uses
    #[command(
        after_help = "Examples:\n  mneme clean recording/7312.json -rid 1631\n  mneme clean recording/7312.json recording/8245.json\n  mneme clean recording"
    )]
    Clean(manage::CleanOptions),
    /// Move recordings to another folder, with everything they need
    #[command(
        name = "move",
        override_usage = "mneme move [OPTIONS] <FROM>... <TO>",
        after_help = "Examples:\n  mneme move recording/7312.json -rid 1631 elsewhere\n  mneme move recording/*.json elsewhere"
    )]
    Move(manage::TransferOptions),
    /// Copy recordings to another folder, with everything they need
    #[command(
        override_usage = "mneme copy [OPTIONS] <FROM>... <TO>",
        after_help = "Examples:\n  mneme copy recording/7312.json elsewhere\n  mneme copy --epilogue-format diff recording for-the-existing-mneme"
    )]
    Copy(manage::CopyOptions),
    /// Copy recordings with only the memory that their kernels touch; exits with 1 if a copy does not verify
    #[command(
        override_usage = "mneme minimize [OPTIONS] <FROM>... <TO>",
        after_help = "Example:\n  mneme minimize recording/7312.json -rid 1631 small"
    )]
    Minimize(minimize::MinimizeOptions),
    /// Replay recordings as a regression suite; exits with 1 if one is broken or slower
    #[command(after_help = TEST_EXAMPLES)]
    Test(regression::TestOptions),
    /// Compare two results files of mneme test; exits with 1 if a launch is broken or slower
    #[command(after_help = "Example:\n  mneme compare driver-580.json driver-590.json --markdown $GITHUB_STEP_SUMMARY")]
    Compare(regression::CompareOptions),
    /// Write a recorded launch as a standalone program, or winners for the program's source
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(export::ExportOptions),
    /// Check this machine, with a remedy for each problem; exits with 1 if a required part is missing
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(doctor::DoctorOptions),
    /// Print settings for build systems
    #[command(
        after_help = "Example:\n  cmake -B build -DCMAKE_PREFIX_PATH=$(mneme config cmakedir) \\\n      -DCMAKE_CXX_COMPILER=$(mneme config cxx) -DCMAKE_CUDA_COMPILER=clang++-19"
    )]
    Config(config::ConfigOptions),
}

/// A command line for another program of this installation.
#[derive(Debug, clap::Args)]
struct Handover {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl Handover {
    /// Adds the verbosity after the program's own subcommand, if any. A later one overrides it.
    fn say(&mut self, verbosity: Option<String>) {
        let is_subcommand = |word: &OsString| word == "sweep" || word == "serve";
        let place = usize::from(self.arguments.first().is_some_and(is_subcommand));
        let option = verbosity.into_iter().flat_map(|level| ["-v".into(), level.into()]);
        self.arguments.splice(place..place, option);
    }
}

const EXAMPLES: &str = "Examples:
  mneme record -rdb recording -- ./app arguments
  mneme ls
  mneme replay -rdb recording --kernel stencil 'default<O3>'
  mneme tune -rdb recording --kernel stencil --results-dir tuning
  mneme apply --tuned tuning -- ./app arguments

Exit status: 0 done, 64 bad usage, 65 bad recording, 66 a named file or folder is missing, 69 no such device, 70 \
internal error. test and compare end with 1 if a verdict fails, minimize if a copy does not verify, and doctor if a \
required part is missing. record, profile and apply end with the program's status; replay, tune, evaluate, \
bisect and learn with that of mneme-replay, mneme-tune, mneme-tune, mneme-bisect and mneme-tune.";

const RECORD_EXAMPLES: &str = "Examples:
  mneme record -rdb recording -- ./app arguments
  mneme record --dry-run -- ./app
  mneme record -rdb recording --kernels 'stencil.*' --max 2 --skip 10 --sample 100 -- ./app
  mneme record -rdb recording --device cpu -- ./app
  mneme record -rdb recording --epilogue-format diff -- ./app

Exit status: the program's; 73 if the program succeeded but a recording failed, or, with --strict, if a launch is of \
a kind that cannot be recorded.";

const PROFILE_EXAMPLES: &str = "Examples:
  mneme profile -- ./app arguments
  mneme profile --json profile.json -- python train.py

GPU TIME, SHARE and LAUNCHES count all launches; for kernels with many short launches, mneme times a sample.";

const ANNOTATE_EXAMPLES: &str = "Examples:
  mneme annotate recording/7312.json --argument 2 --dtype f64 --relative 1e-9
  mneme annotate recording --tag pressure --dtype f32 --absolute 1e-3 --norm l2
  mneme annotate recording/7312.json --variable scratch --ignore
  mneme annotate recording/7312.json --argument 0 --offset 4096 --bytes 800 --ignore
  mneme annotate recording/7312.json --argument 2 --remove
  mneme annotate recording";

const TEST_EXAMPLES: &str = "Examples:
  mneme test recordings --save results.json
  mneme test recordings --against results.json --junit report.xml
  mneme test recordings --passes 'default<O2>' --passes 'default<O3>' --passes original

A launch is SLOWER or faster if the medians differ by more than the threshold with at least 95 % confidence. This \
takes at least four starts. If the times vary too much to tell, it is INCONCLUSIVE, and the exit status is 6.";

const EXPORT_EXAMPLES: &str = "Examples:
  mneme export --standalone recording reproducer --kernel stencil
  mneme export --standalone recording/7312.json reproducer --code out/kernel.ptx
  make -C reproducer && (cd reproducer && ./kernel)

The folder contains a C program, the memory, the code and the IR. The program needs a C compiler and NVIDIA's \
driver. It verifies every byte and prints the time.

  mneme export --header tuned.hpp --cmake tuned.cmake results/7312 results/8245
  mneme export --wisdom wisdom results/7312

The header contains launch dimensions and launch bounds by GPU and launch, and the CMake file contains compiler \
options. The folder contains a wisdom file for each kernel, for programs that use Kernel Launcher.";

const APPLY_EXAMPLES: &str = "Examples:
  mneme apply --tuned results -- ./app arguments
  mneme apply --tuned results/7312 results/8245 --json applied.json -- ./app
  mneme apply --tuned proteus_tuned_kernels.json -rdb recording -- ./app
  mneme apply --tuned results --manifest tuned.json
  MNEME_MODE=apply MNEME_TUNED=tuned.json LD_PRELOAD=libmneme_rec.so ./app

  mneme apply --specialize -- ./app
  mneme apply --learn learnt -- ./app

Name the application after --. Launches without a winner, and kernels whose code has changed, keep the application's \
own code; the closing table says why.";

const DOCTOR_EXAMPLES: &str = "Examples:
  mneme doctor
  mneme doctor --json | jq '.checks[] | select(.state != \"ok\")'

A part is ok, absent (it is optional) or missing (recording, replaying or tuning fails without it). Each absent or \
missing part comes with a remedy.";

const LEARN_EXAMPLES: &str = "Examples:
  mneme apply --learn learnt -- ./app     (twice: kernels are timed, then recorded)
  mneme learn learnt
  mneme learn learnt -- --space-preset quick --device 1
  mneme apply --learn learnt -- ./app     (with the confirmed winners)

A kernel without a faster configuration keeps its own code, which is not a failure. The exit status is that of \
mneme-tune for the first kernel that could not be tuned, or 75 if another process is tuning the folder. Interrupted \
sessions are resumed.";

/// The command line. `mneme apply` needs no application if it only writes a file.
fn command() -> clap::Command {
    CommandLine::command()
        .mut_subcommand("apply", |apply| apply.mut_arg("command", |argument| argument.required(false)))
}

fn main() {
    // Ends quietly if the reader of its output ends, like other programs in a pipe.
    // SAFETY: no other thread runs yet and the default disposition needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    mneme_manual::write_if_requested(command);
    let typed: Vec<OsString> = std::env::args_os().collect();
    let arguments = mneme_system::arguments::normalise(typed.iter().cloned(), &ONE_DASH);
    let parsed = command().try_get_matches_from(arguments).and_then(|matches| CommandLine::from_arg_matches(&matches));
    let mut options = parsed.unwrap_or_else(|error| {
        let _ = error.print();
        exit(if error.use_stderr() { mneme_system::exit::BAD_USAGE } else { 0 })
    });
    if let Err(wrong) = trust::add(&options.trust).and_then(|()| install::check_home()) {
        mneme_system::remark!("mneme: {wrong}");
        exit(mneme_system::exit::BAD_USAGE);
    }
    match &mut options.command {
        Command::Record(record) => record.application.restore(&typed, options.verbosity),
        Command::Profile(profile) => profile.application.restore(&typed, options.verbosity),
        Command::Apply(apply) => apply.application.restore(&typed, options.verbosity),
        Command::Replay(handover) | Command::Bisect(handover) => handover.say(options.verbosity),
        _ => {}
    }
    if let Err(error) = run(options.command) {
        mneme_system::remark!("mneme: {error}");
        exit(error.exit_status());
    }
}

fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Record(options) => match record::run(&options)? {},
        Command::Profile(options) => match profile::run(&options)? {},
        Command::Apply(options) => apply::run(&options),
        Command::Replay(handover) => Err(siblings::become_program(install::REPLAYER, &handover.arguments)),
        Command::Tune(handover) => Err(siblings::become_program(install::TUNER, &handover.arguments)),
        Command::Evaluate(mut handover) => {
            handover.arguments.insert(0, "evaluate".into());
            Err(siblings::become_program(install::TUNER, &handover.arguments))
        }
        Command::Bisect(handover) => Err(siblings::become_program(install::BISECTOR, &handover.arguments)),
        Command::Ls(options) => list::run(&options),
        Command::Show(options) => show::run(&options),
        Command::Annotate(options) => annotate::run(&options),
        Command::Fsck(options) => fsck::run(&options),
        Command::Clean(options) => manage::clean(&options),
        Command::Move(options) => manage::move_to(&options),
        Command::Copy(options) => manage::copy(&options),
        Command::Learn(options) => learn::learn(&options),
        Command::Minimize(options) => minimize::run(options),
        Command::Test(options) => regression::test(&options),
        Command::Compare(options) => regression::compare(&options),
        Command::Export(options) => export::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Config(options) => config::run(&options),
    }
}
