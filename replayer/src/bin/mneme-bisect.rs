//! The program `mneme-bisect`, which finds the optimisation pass that broke a kernel.

fn main() {
    mneme_replayer::program::by_name()
}
