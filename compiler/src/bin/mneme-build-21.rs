//! The builder with LLVM 21.

fn main() {
    mneme_compiler::program::main();
}
