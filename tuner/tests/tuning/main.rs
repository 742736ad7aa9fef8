//! `mneme-tune` against a stub server that obeys its configurations: command line, sessions, resumption.

mod command_line;
mod configuration;
mod disturbing;
mod full_disk;
mod home;
mod instances;
mod objectives;
mod refuting;
mod resuming;
mod sessions;
