//! A short run of every target.

#[global_allocator]
static ALLOCATOR: mneme_fuzz::allocation::Limited = mneme_fuzz::allocation::Limited;

#[test]
fn no_input_breaks_a_parser() {
    mneme_fuzz::run_all(200_000, 20_260);
}
