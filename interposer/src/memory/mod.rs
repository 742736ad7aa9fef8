//! Device memory: the arena that serves the application, live allocations, annotations.

pub mod access;
pub mod allocations;
pub mod annotate;
pub mod annotations;
pub mod arena;
pub mod bounds;
pub mod external;
pub mod frees;
pub mod images;
pub mod ipc;
pub mod pageable;
pub mod served;
pub mod sharing;
pub mod tracked;
