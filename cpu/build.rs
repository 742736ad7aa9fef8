//! The library keeps worker threads and a signal handler, so it must stay mapped after a `dlclose`.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
