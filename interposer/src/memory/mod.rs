//! Device memory: the arena that serves the application, every live allocation, and what is said about it.

pub mod access;
pub mod allocations;
pub mod annotations;
pub mod arena;
pub mod external;
pub mod frees;
pub mod pageable;
pub mod served;
pub mod sharing;
pub mod tracked;
