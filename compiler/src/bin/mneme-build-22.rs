//! The builder with LLVM 22.

fn main() {
    mneme_compiler::program::main();
}
