//! mneme-bisect: finds the optimisation pass that broke a recorded kernel.

fn main() {
    mneme_replayer::program::by_name()
}
