//! An empty library: its manifest unifies the features of shared crates.
