//! The commands of `mneme`.
