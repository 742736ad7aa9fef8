//! The build script, which links the library so that it stays mapped and calls its own functions.
//!
//! It stays mapped because it has worker threads and a signal handler. Functions of the same names that are preloaded
//! in front of it only affect its callers.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-Bsymbolic-functions");
}
