//! Reads bitcode modules, and links them into one.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use llvm_sys::linker::LLVMLinkModules2;
use mneme_image::bitcode;
use mneme_model::llvm_version;

use super::diagnostics::Diagnostics;
use crate::error::BuildError;

/// Links `bitcodes` into one module. If several define a weak name, the first definition wins. `debug` keeps debug
/// information.
pub fn load<'ctx>(
    context: &'ctx Context,
    diagnostics: &Diagnostics<'_>,
    bitcodes: &[&[u8]],
    debug: bool,
) -> Result<Module<'ctx>, BuildError> {
    let (first, rest) =
        bitcodes.split_first().ok_or_else(|| BuildError::Bitcode { message: "there is none".into() })?;
    let whole = parse(context, diagnostics, first)?;
    for module in rest {
        let other = parse(context, diagnostics, module)?;
        // SAFETY: both modules live in one context. LLVM takes ownership of `other` even on failure, so it is forgotten
        // here.
        let failed = unsafe { LLVMLinkModules2(whole.as_mut_ptr(), other.as_mut_ptr()) } != 0;
        std::mem::forget(other);
        if failed {
            return Err(BuildError::Link {
                message: diagnostics.take().unwrap_or_else(|| "LLVM gives no reason".into()),
            });
        }
    }
    // Debug information would reach the PTX, and the assembler optimises code with debug information less.
    if !debug {
        whole.strip_debug_info();
    }
    Ok(whole)
}

/// Reads one module: bitcode, or assembly text. Refuses bitcode of a newer LLVM, on which LLVM may crash.
pub fn parse<'ctx>(
    context: &'ctx Context,
    diagnostics: &Diagnostics<'_>,
    bytes: &[u8],
) -> Result<Module<'ctx>, BuildError> {
    let supported = crate::version::llvm_version();
    if let Some(found) = bitcode::producer(bytes)
        && llvm_version::major(&found) > llvm_version::major(&supported)
    {
        return Err(BuildError::NewerBitcode { found: llvm_version::number(&found).to_owned(), supported });
    }
    // A copy, because LLVM reads one byte past the end.
    let buffer = MemoryBuffer::create_from_memory_range_copy(bytes, "IR");
    let module = if bitcode::is_bitcode(bytes) {
        Module::parse_bitcode_from_buffer(&buffer, context)
    } else {
        context.create_module_from_ir(buffer)
    };
    module.map_err(|error| {
        let message = diagnostics.take().unwrap_or_else(|| error.to_string());
        BuildError::Bitcode { message: message.trim().replace('\n', "; ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_llvm_names_itself() {
        let context = Context::create();
        let bitcode = context.create_module("m").write_bitcode_to_memory();
        let producer = bitcode::producer(bitcode.as_slice()).unwrap();
        assert_eq!(
            (llvm_version::number(&producer), llvm_version::major(&producer)),
            (crate::version::llvm_version().as_str(), Some(crate::version::LLVM_MAJOR))
        );
    }

    /// The beginning of a bitcode file written by `producer`.
    fn forge(producer: &str) -> Vec<u8> {
        fn fixed(bits: &mut Vec<bool>, value: u64, width: u32) {
            bits.extend((0..width).map(|at| value >> at & 1 == 1));
        }
        fn variable(bits: &mut Vec<bool>, mut value: u64, width: u32) {
            let more = 1 << (width - 1);
            while value >= more {
                fixed(bits, value & (more - 1) | more, width);
                value >>= width - 1;
            }
            fixed(bits, value, width);
        }
        let mut bits = Vec::new();
        // The identification block, with abbreviations of 5 bits.
        fixed(&mut bits, 1, 2);
        variable(&mut bits, 13, 8);
        variable(&mut bits, 5, 4);
        bits.resize(32, false);
        fixed(&mut bits, 0, 32);
        // An unabbreviated record, and the block's end.
        fixed(&mut bits, 3, 5);
        [1, producer.len() as u64]
            .into_iter()
            .chain(producer.bytes().map(u64::from))
            .for_each(|value| variable(&mut bits, value, 6));
        fixed(&mut bits, 0, 5);
        let bytes =
            bits.chunks(8).map(|byte| byte.iter().enumerate().fold(0, |sum, (at, bit)| sum | u8::from(*bit) << at));
        b"BC\xC0\xDE".iter().copied().chain(bytes).collect()
    }

    #[test]
    fn bitcode_of_a_newer_llvm_is_refused_with_both_versions() {
        let newer = forge("LLVM99.1.0");
        assert_eq!(bitcode::producer(&newer).as_deref(), Some("LLVM99.1.0"));
        let context = Context::create();
        let diagnostics = Diagnostics::collect(&context);
        let message = load(&context, &diagnostics, &[&newer], false).unwrap_err().to_string();
        assert!(message.contains("LLVM 99.1.0") && message.contains(&crate::version::llvm_version()), "{message}");
    }
}
