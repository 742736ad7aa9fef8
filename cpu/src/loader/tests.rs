//! Objects made by the C compiler, loaded and run.
