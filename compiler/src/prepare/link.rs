//! Reads bitcode modules and links them into one.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use llvm_sys::linker::LLVMLinkModules2;

use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;
use crate::ir::producer;

/// One module from all of `bitcodes`; definitions of the first win where several define a weak name. `debug` keeps what they tell
/// of the source.
pub fn load<'ctx>(
    context: &'ctx Context,
    diagnostics: &Diagnostics<'_>,
    bitcodes: &[&[u8]],
    debug: bool,
) -> Result<Module<'ctx>, BuildError> {
    let (first, rest) = bitcodes.split_first().ok_or_else(|| BuildError::Bitcode { message: "there is none".into() })?;
    let whole = parse(context, diagnostics, first)?;
    for bitcode in rest {
        let other = parse(context, diagnostics, bitcode)?;
        // SAFETY: both modules live in one context; LLVM takes `other` over whether it succeeds or not, so it is
        // forgotten here.
        let failed = unsafe { LLVMLinkModules2(whole.as_mut_ptr(), other.as_mut_ptr()) } != 0;
        std::mem::forget(other);
        if failed {
            return Err(BuildError::Link { message: diagnostics.take().unwrap_or_else(|| "LLVM gives no reason".into()) });
        }
    }
    // Debug information would reach the PTX, and the assembler optimises code less that has it.
    if !debug {
        whole.strip_debug_info();
    }
    Ok(whole)
}

/// Reads one module: bitcode, or assembly text. Bitcode of a newer LLVM is refused, because LLVM may crash on it.
pub fn parse<'ctx>(context: &'ctx Context, diagnostics: &Diagnostics<'_>, bytes: &[u8]) -> Result<Module<'ctx>, BuildError> {
    let supported = crate::llvm_version();
    if let Some(found) = producer::producer(bytes)
        && producer::major(&found) > producer::major(&supported)
    {
        return Err(BuildError::NewerBitcode { found: producer::version(&found).to_owned(), supported });
    }
    // A copy, because LLVM reads one byte past the end.
    let buffer = MemoryBuffer::create_from_memory_range_copy(bytes, "IR");
    let module = if bytes.starts_with(BITCODE) || bytes.starts_with(WRAPPER) {
        Module::parse_bitcode_from_buffer(&buffer, context)
    } else {
        context.create_module_from_ir(buffer)
    };
    module.map_err(|error| {
        let message = diagnostics.take().unwrap_or_else(|| error.to_string());
        BuildError::Bitcode { message: message.trim().replace('\n', "; ") }
    })
}

/// How bitcode begins, and how it begins in the wrapper that some platforms give it (LLVM's bitcode format).
const BITCODE: &[u8] = b"BC\xC0\xDE";
const WRAPPER: &[u8] = &[0xDE, 0xC0, 0x17, 0x0B];
