//! The builder with LLVM 19.

fn main() {
    mneme_compiler::program::main();
}
