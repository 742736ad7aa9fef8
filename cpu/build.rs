//! The build script, by which the library stays mapped after a `dlclose`.
//!
//! The library keeps worker threads and a signal handler.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
