//! mneme-replay: re-executes one recorded kernel under any configuration and verifies it.

fn main() {
    mneme_replayer::program::by_name()
}
