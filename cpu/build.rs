//! The build script: the library stays mapped after a `dlclose`, and its functions call one another.
//!
//! The library keeps worker threads and a signal handler. Functions of the same name that are preloaded in front of it
//! are for its callers, not for itself.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-Bsymbolic-functions");
}
