//! Devices that kernels are replayed on.
