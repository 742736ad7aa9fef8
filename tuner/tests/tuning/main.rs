//! `mneme-tune` against a server that does as its configurations say.
//!
//! Its command line, its sessions, and their resumption.

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
