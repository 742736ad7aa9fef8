//! The builder with LLVM 20.

fn main() {
    mneme_compiler::program::main();
}
