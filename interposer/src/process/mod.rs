//! The application's process: its environment, its linker, its threads.

pub mod device_choice;
pub mod family;
pub mod flags;
pub mod held_back;
pub mod linker;
pub mod log;
pub mod own_memory;
pub mod own_stack;
pub mod recorded_family;
pub mod reentrancy;
pub mod reserve;
pub mod settings;
pub mod threads;
pub mod trampoline;
pub mod winners;
