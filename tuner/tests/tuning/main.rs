//! `mneme-tune` against a stub server: its command line, its sessions and their resumption.

mod command_line;
mod configuration;
mod disturbing;
mod evaluating;
mod full_disk;
mod home;
mod instances;
mod objectives;
mod refuting;
mod resuming;
mod sessions;
