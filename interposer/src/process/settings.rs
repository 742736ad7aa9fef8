//! The environment variables of the recorder, read when it was loaded.
//!
//! Names and defaults are upstream's if upstream has them. docs/reference/environment.md lists them for users.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use mneme_model::summary::{self, RecorderMode};
use mneme_system::environment;
use mneme_winners::FoldedKinds;
use regex_lite::Regex;

use crate::process::log::warning;

#[derive(Debug)]
pub struct RecorderSettings {
    /// `MNEME_DATA_DIR`: the folder for recordings. Default: the current folder.
    pub folder: PathBuf,
    /// `MNEME_RR_KERNELS`: a regular expression, searched in the mangled and the demangled name. Default: all kernels.
    pub kernels: Option<Regex>,
    /// `MNEME_MAX_RECORDINGS`: instances to record of each kernel. Default: 4.
    pub max_recordings: u64,
    /// `MNEME_SKIP_RECORDINGS`: how many first launches of a kernel to skip. Default: 0.
    pub skip_recordings: u64,
    /// `MNEME_MODE`: `record`, `profile`, `dry-run` or `apply`. Default: `record`.
    pub mode: RecorderMode,
    /// `MNEME_TUNED`: files of compiled winners, for `apply`.
    pub tuned: Vec<PathBuf>,
    /// `MNEME_VERIFY_FIRST`: trial launches of a winner before it is used, for `apply`. Default: 0.
    pub verify_first: u32,
    /// The mode records no launch and counts none as recordable.
    pub records_nothing: bool,
    /// `MNEME_SPECIALIZE`: which arguments to fold into code for launches that repeat, `integers` or `scalars`, for
    /// `apply`. Default: none.
    pub specialise: Option<FoldedKinds>,
    /// `MNEME_TIMES`: time replaced launches, for `apply`. Default: no.
    pub times_replaced: bool,
    /// `MNEME_SAMPLE`: look at every Nth launch of a kernel only (in a profile: time it). Default: 0, which means all
    /// launches (in a profile: as many as cost little).
    pub sample: u64,
    /// `MNEME_SUMMARY`: the file to which the summary is appended as a line of JSON.
    pub summary: Option<PathBuf>,
    /// The rank of this process in a distributed run.
    pub rank: Option<u64>,
    /// Whether `MNEME_RECORD_RANKS` selects this process.
    pub rank_selected: bool,
    /// `MNEME_KERNEL_LIMIT`: seconds that the application may wait for a kernel or for the work before it. Default: 5.
    pub kernel_limit: Duration,
    /// `MNEME_COMPRESSION_LEVEL`: zstd's level. Default: 1.
    pub compression_level: i32,
    /// `MNEME_BUFFER_MB`: page-locked memory for data on its way to disk, here in bytes, in the variable in MiB.
    /// Default: 256 MiB.
    pub buffer_bytes: u64,
    /// `MNEME_SYNC`: a recorded launch returns when its recording is on disk.
    pub synchronous: bool,
    /// `MNEME_ARENA`: `off` leaves every allocation to the vendor. By default, processes that probably share memory
    /// with others do so too.
    pub arena: bool,
    /// `MNEME_ARENA=on`: keeps the arena in use in a process that shares memory with others.
    pub arena_forced: bool,
    /// `MNEME_GRAPHS`: which graphs are launched node by node, which records their kernels.
    pub graphs: GraphExpansion,
    /// `MNEME_PAGE_SIZE`: the size of the arena's address range, in the variable in GiB. Default: the device's memory.
    pub arena_bytes: Option<u64>,
    /// `MNEME_EPILOGUE_TYPE`: gives every allocation separate pages if `mneme record` will convert the recording into a
    /// format of the existing Mneme, which maps allocations that way.
    pub whole_pages: bool,
}

/// Which launches of graphs are done node by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphExpansion {
    Never,
    /// Those with a kernel that lacks an instance.
    WhileLacking,
    Always,
}

impl GraphExpansion {
    /// Of `MNEME_GRAPHS`. By default a mode that records expands what it needs.
    fn of(text: Option<&str>, mode: RecorderMode) -> Self {
        match text.map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            Some("expand") => Self::Always,
            Some("whole") => Self::Never,
            _ if matches!(mode, RecorderMode::Record | RecorderMode::DryRun) => Self::WhileLacking,
            _ => Self::Never,
        }
    }
}

const LIMIT_VARIABLE: &str = "MNEME_KERNEL_LIMIT";
/// The earlier name of [`LIMIT_VARIABLE`].
const OLD_LIMIT_VARIABLE: &str = "MNEME_IDLE_TIMEOUT";
/// Seconds that can be added to any time without overflow.
const LONGEST_LIMIT: u64 = 1_000_000;

/// Variables that hold the rank of a process in a distributed run, tried after torchrun's `RANK`: those of the existing
/// Mneme in its order, then those of MVAPICH, PALS, ALPS and Horovod. The first that is set counts.
const RANK_VARIABLES: [&str; 12] = [
    "FLUX_TASK_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MPI_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK",
    "PMIX_RANK", "PBS_TASKNUM", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "ALPS_APP_PE", "HOROVOD_RANK",
];

/// Variables that hold how many processes of a run share the machine: of Open MPI, of MPICH and Intel MPI, of MVAPICH,
/// of torchrun, of jsrun, of srun (a list by machine, `4(x2),3`).
const LOCAL_SIZE_VARIABLES: [&str; 6] = [
    "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE",
    "JSM_NAMESPACE_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE",
];

/// The folder in which the program was started. A relative `MNEME_DATA_DIR` refers to it.
static START: OnceLock<PathBuf> = OnceLock::new();

pub fn remember_start_folder() {
    if let Ok(folder) = std::env::current_dir() {
        let _ = START.set(folder);
    }
}

pub fn settings() -> &'static RecorderSettings {
    static SETTINGS: OnceLock<RecorderSettings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let mut settings = RecorderSettings::read(environment::variable);
        let start = START.get().map_or(Path::new("."), PathBuf::as_path);
        settings.folder = start.join(&settings.folder);
        settings.summary = settings.summary.map(|file| start.join(file));
        settings.tuned.iter_mut().for_each(|file| *file = start.join(&file));
        settings
    })
}

impl RecorderSettings {
    /// Whether some launches are left out by their number.
    pub fn leaves_out_any(&self) -> bool {
        self.mode != RecorderMode::Apply && (self.skip_recordings > 0 || self.sample > 1)
    }

    /// Whether to leave out this launch of a kernel, counted from 0.
    pub fn leaves_out(&self, number: u64) -> bool {
        number < self.skip_recordings
            || (self.sample > 1 && !(number - self.skip_recordings).is_multiple_of(self.sample))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        let number = |name: &str, default: u64| match variable(name) {
            None => default,
            Some(text) => text.trim().parse().unwrap_or_else(|_| {
                warning!("{name} is '{text}', which is not a number; {default} is used");
                default
            }),
        };
        let kernels = variable("MNEME_RR_KERNELS").and_then(|text| {
            Regex::new(&text)
                .inspect_err(|error| {
                    warning!("MNEME_RR_KERNELS is not a regular expression, so all kernels are recorded: {error}")
                })
                .ok()
        });
        let mode = variable("MNEME_MODE").map_or(RecorderMode::Record, |text| {
            RecorderMode::parse(text.trim()).unwrap_or_else(|| {
                warning!("MNEME_MODE is '{text}'; it must be record, profile, dry-run or apply; record is used");
                RecorderMode::Record
            })
        });
        let verify_first = u32::try_from(number(mneme_winners::TRIALS_VARIABLE, 0)).unwrap_or(u32::MAX);
        let specialise = variable(mneme_winners::SPECIALISATION_VARIABLE).and_then(|text| {
            let kinds = FoldedKinds::parse(text.trim());
            if kinds.is_none() {
                let name = mneme_winners::SPECIALISATION_VARIABLE;
                warning!("{name} is '{text}'; it must be integers or scalars; no launch is specialised");
            }
            kinds.filter(|_| mode == RecorderMode::Apply)
        });
        let records_nothing = mode == RecorderMode::Profile || (mode == RecorderMode::Apply && verify_first == 0);
        let arena = variable("MNEME_ARENA").map(|text| !is_off(&text));
        let rank = rank(variable);
        Self {
            folder: variable("MNEME_DATA_DIR").map_or_else(PathBuf::new, PathBuf::from),
            kernels,
            max_recordings: number("MNEME_MAX_RECORDINGS", 4),
            skip_recordings: number("MNEME_SKIP_RECORDINGS", 0),
            mode,
            tuned: variable(mneme_winners::VARIABLE).map_or_else(Vec::new, |files| {
                let start = START.get().map_or(Path::new("."), PathBuf::as_path);
                paths(&files, |path| start.join(path).is_file())
            }),
            verify_first,
            records_nothing,
            specialise,
            times_replaced: variable(mneme_winners::TIMES_VARIABLE).is_some_and(|text| !is_off(&text)),
            sample: number("MNEME_SAMPLE", 0),
            summary: variable(summary::VARIABLE).map(PathBuf::from),
            rank,
            rank_selected: rank_selected(variable("MNEME_RECORD_RANKS").as_deref(), rank),
            kernel_limit: Duration::from_secs(number(LIMIT_VARIABLE, number(OLD_LIMIT_VARIABLE, 5)).min(LONGEST_LIMIT)),
            compression_level: number("MNEME_COMPRESSION_LEVEL", 1).clamp(1, 22) as i32,
            buffer_bytes: number("MNEME_BUFFER_MB", 256).saturating_mul(1 << 20),
            synchronous: variable("MNEME_SYNC").is_some_and(|text| !is_off(&text)),
            // Modes that record nothing do not change the program's allocations.
            arena: !records_nothing && arena.unwrap_or_else(|| !has_neighbours(variable)),
            arena_forced: arena == Some(true),
            graphs: GraphExpansion::of(variable("MNEME_GRAPHS").as_deref(), mode),
            arena_bytes: variable("MNEME_PAGE_SIZE")
                .and_then(|_| number("MNEME_PAGE_SIZE", 0).checked_mul(1 << 30))
                .filter(|bytes| *bytes > 0),
            whole_pages: variable("MNEME_EPILOGUE_TYPE")
                .is_some_and(|text| matches!(text.trim().to_ascii_lowercase().as_str(), "bytes" | "diff" | "best")),
        }
    }

    pub fn selects(&self, mangled: &str, demangled: &str) -> bool {
        self.kernels.as_ref().is_none_or(|kernels| kernels.is_match(mangled) || kernels.is_match(demangled))
    }
}

/// Splits a list of files at colons. A path may contain colons itself, so the shortest joined prefix that is a file is
/// taken.
fn paths(list: &str, is_there: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let parts: Vec<&str> = list.split(':').collect();
    let mut found = Vec::new();
    let mut rest = &parts[..];
    while !rest.is_empty() {
        let joined = |count: &usize| rest[..*count].join(":");
        let count = (1..=rest.len()).find(|count| is_there(Path::new(&joined(count)))).unwrap_or(1);
        found.extend(Some(joined(&count)).filter(|path| !path.is_empty()).map(PathBuf::from));
        rest = &rest[count..];
    }
    found
}

fn is_off(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "off" | "0" | "no" | "false")
}

/// Whether other processes of a distributed run are on the same machine. These share device memory (MPI and NCCL
/// through CUDA IPC), and memory of the arena cannot be shared.
fn has_neighbours(variable: impl Fn(&str) -> Option<String>) -> bool {
    let leading = |text: String| {
        text.trim().split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse::<u64>().ok())
    };
    let number = |name: &str| variable(name).and_then(leading);
    // Flux gives the number of processes and the number of machines.
    let by_flux = number("FLUX_JOB_SIZE")
        .zip(number("FLUX_JOB_NNODES"))
        .is_some_and(|(processes, machines)| processes > machines);
    by_flux || LOCAL_SIZE_VARIABLES.iter().filter_map(|name| number(name)).any(|processes| processes > 1)
}

/// The rank of this process, or `None` outside a distributed run.
fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u64>().ok());
    // `RANK` with `WORLD_SIZE` is set by torchrun and everything else that starts PyTorch. It comes first because
    // torchrun starts its processes inside a task of another launcher. `RANK` alone may mean anything.
    let by_torch =
        number("RANK").zip(number("WORLD_SIZE")).filter(|(rank, processes)| rank < processes).map(|(rank, _)| rank);
    by_torch.or_else(|| RANK_VARIABLES.iter().find_map(|name| variable(name)).and_then(|text| text.trim().parse().ok()))
}

/// Whether a process records. Outside a distributed run all do; in one, only rank 0 unless the selection says
/// otherwise.
fn rank_selected(selection: Option<&str>, rank: Option<u64>) -> bool {
    let Some(rank) = rank else { return true };
    let Some(selection) = selection else { return rank == 0 };
    if selection.trim().eq_ignore_ascii_case("all") {
        return true;
    }
    let ranks: Option<BTreeSet<u64>> =
        selection.split([',', ' ', ';']).filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect();
    match ranks {
        Some(ranks) => ranks.contains(&rank),
        None => {
            warning!("MNEME_RECORD_RANKS is '{selection}'; it must be 'all' or a list of ranks; rank 0 is recorded");
            rank == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> RecorderSettings {
        RecorderSettings::read(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_list_of_files_may_have_colons_in_their_names() {
        let files = ["/a", "/tmp:x/b:c", "d:"].map(Path::new);
        let read = |list: &str| paths(list, |path| files.contains(&path));
        assert_eq!(read("/a:/tmp:x/b:c:/none:d::/a"), ["/a", "/tmp:x/b:c", "/none", "d:", "/a"].map(PathBuf::from));
        assert_eq!(read("/tmp:y/b"), ["/tmp", "y/b"].map(PathBuf::from));
        assert_eq!(read(":"), Vec::<PathBuf>::new());
    }

    #[test]
    fn defaults_are_upstreams() {
        let settings = read(&[]);
        assert_eq!((settings.max_recordings, settings.skip_recordings, settings.rank_selected), (4, 0, true));
        assert_eq!(settings.folder, PathBuf::new(), "the folder of the start");
        assert!(settings.selects("_Z1kv", "k()") && settings.arena_bytes.is_none());
    }

    #[test]
    fn kernels_are_selected_by_either_name() {
        let settings = read(&[("MNEME_RR_KERNELS", "vecAdd<int>|^_Z4sax")]);
        assert!(settings.selects("_Z6vecAddIiEvPT_", "void vecAdd<int>(int*)"));
        assert!(settings.selects("_Z4saxpyv", "saxpy()"));
        assert!(!settings.selects("_Z6vecAddIfEvPT_", "void vecAdd<float>(float*)"));
    }

    #[test]
    fn nonsense_falls_back_to_the_default() {
        let settings = read(&[
            ("MNEME_MAX_RECORDINGS", "many"),
            ("MNEME_RR_KERNELS", "("),
            ("MNEME_PAGE_SIZE", "2"),
            ("MNEME_ARENA", "OFF"),
        ]);
        assert_eq!(settings.max_recordings, 4);
        assert!(settings.selects("anything", ""));
        assert_eq!((settings.arena_bytes, settings.arena), (Some(2 << 30), false));
    }

    #[test]
    fn graphs_are_expanded_if_their_kernels_are_recorded() {
        assert_eq!(read(&[]).graphs, GraphExpansion::WhileLacking);
        assert_eq!(read(&[("MNEME_GRAPHS", "nonsense")]).graphs, GraphExpansion::WhileLacking);
        assert_eq!(read(&[("MNEME_GRAPHS", "Expand")]).graphs, GraphExpansion::Always);
        assert_eq!(read(&[("MNEME_GRAPHS", "whole")]).graphs, GraphExpansion::Never);
        for mode in ["profile", "apply"] {
            assert_eq!(read(&[("MNEME_MODE", mode)]).graphs, GraphExpansion::Never, "{mode}");
        }
    }

    #[test]
    fn processes_that_share_memory_have_no_arena_unless_asked_for() {
        assert!(read(&[("LOCAL_WORLD_SIZE", "1")]).arena);
        assert!(!read(&[("LOCAL_WORLD_SIZE", "2")]).arena);
        for (one, several) in [("1", "2"), ("1(x4)", "4(x2),3")] {
            assert!(read(&[("SLURM_STEP_TASKS_PER_NODE", one)]).arena);
            assert!(!read(&[("SLURM_STEP_TASKS_PER_NODE", several)]).arena);
        }
        assert!(read(&[("FLUX_JOB_SIZE", "4"), ("FLUX_JOB_NNODES", "4")]).arena);
        assert!(!read(&[("FLUX_JOB_SIZE", "4"), ("FLUX_JOB_NNODES", "1")]).arena);
        let forced = read(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), ("MNEME_ARENA", "on")]);
        assert!(forced.arena && forced.arena_forced);
    }

    #[test]
    fn ranks() {
        for (selection, rank, expected) in [
            (None, None, true),
            (None, Some(0), true),
            (None, Some(3), false),
            (Some("all"), Some(3), true),
            (Some("1,3"), Some(3), true),
            (Some("1, 3"), Some(0), false),
            (Some("some"), Some(0), true),
            (Some("some"), Some(1), false),
            (Some("1"), None, true),
        ] {
            assert_eq!(rank_selected(selection, rank), expected, "{selection:?} {rank:?}");
        }
        assert!(!read(&[("SLURM_PROCID", "2")]).rank_selected);
        assert!(
            read(&[("SLURM_PROCID", "2"), ("PMI_RANK", "0")]).rank_selected,
            "the first variable of the list counts"
        );
    }

    #[test]
    fn every_launcher_names_the_rank() {
        for name in RANK_VARIABLES {
            assert_eq!(read(&[(name, "3")]).rank, Some(3), "{name}");
        }
        // torchrun, in a task of srun's on each machine.
        assert_eq!(
            read(&[("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("SLURM_PROCID", "0")]).rank,
            Some(5)
        );
        for others in [
            &[("RANK", "5")][..],
            &[("RANK", "5"), ("WORLD_SIZE", "2")],
            &[("RANK", "gold"), ("WORLD_SIZE", "8")],
            &[("LOCAL_RANK", "1")],
        ] {
            assert_eq!(read(others).rank, None, "{others:?}");
        }
        assert_eq!(read(&[("RANK", "gold"), ("PMI_RANK", "2")]).rank, Some(2));
    }
}
