//! The program `mneme-replay`, which replays a recorded kernel and verifies it.

fn main() {
    mneme_replayer::program::by_name()
}
