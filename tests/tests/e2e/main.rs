//! The main job end to end, on real programs: compile, record, replay, verify, tune.

mod amd;
mod applying;
mod bisecting;
mod building;
mod checking;
mod compiling;
mod confining;
mod coverage;
mod differential;
mod embedded;
mod faults;
mod hip;
mod housekeeping;
mod injecting;
mod interrupting;
mod namesakes;
mod original;
mod programs;
mod recorder;
mod searching;
mod statuses;
mod tuning;
mod upstream;
mod verification;
mod watching;
mod without_ir;
