//! The builder with LLVM 23.

fn main() {
    mneme_compiler::program::main();
}
