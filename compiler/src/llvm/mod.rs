//! The safe interface of `llvm.cpp`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use inkwell::module::Module;
use inkwell::targets::{TargetMachine, TargetTriple};
use llvm_sys::core::{LLVMDisposeMemoryBuffer, LLVMGetBufferSize, LLVMGetBufferStart};
use llvm_sys::prelude::{LLVMMemoryBufferRef, LLVMModuleRef, LLVMValueRef};
use llvm_sys::target_machine::{LLVMCodeGenFileType, LLVMTargetMachineRef};

/// Observes the passes of a pipeline and decides which run.
///
/// Optional passes are numbered from 1, in the order in which they run. Required passes have 0.
pub trait PassObserver {
    /// Called before a pass runs on `unit` ("function f", "loop l of function f", "the module"). Returns whether the
    /// pass should run, which matters only for passes with a number.
    fn before(&mut self, module: &Module<'_>, number: u64, pass: &str, unit: &str) -> bool;

    /// Called after a pass with a number ran.
    fn after(&mut self, module: &Module<'_>, number: u64) {
        let _ = (module, number);
    }
}

#[repr(C)]
struct RawObserver {
    user: *mut c_void,
    before: extern "C" fn(*mut c_void, u64, *const c_char, usize, *const c_char, usize) -> bool,
    after: extern "C" fn(*mut c_void, u64),
}

unsafe extern "C" {
    fn mneme_llvm_forget_annotations(module: LLVMModuleRef);
    fn mneme_llvm_flush_denormals(function: LLVMValueRef);
    fn mneme_llvm_run(
        module: LLVMModuleRef,
        pipeline: *const c_char,
        machine: LLVMTargetMachineRef,
        observer: *const RawObserver,
        instrument: bool,
    ) -> *mut c_char;
    fn mneme_llvm_parse(pipeline: *const c_char, machine: LLVMTargetMachineRef) -> *mut c_char;
    fn mneme_llvm_print(pipeline: *const c_char, machine: LLVMTargetMachineRef) -> *mut c_char;
    fn mneme_llvm_emit(
        module: LLVMModuleRef,
        machine: LLVMTargetMachineRef,
        kind: LLVMCodeGenFileType,
        user: *mut c_void,
        ask: extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> bool,
        code: *mut LLVMMemoryBufferRef,
    ) -> *mut c_char;
    #[cfg(feature = "planted-faults")]
    fn mneme_llvm_breaks_assembly(module: LLVMModuleRef) -> bool;
    fn mneme_llvm_trap_unreachable(machine: LLVMTargetMachineRef);
    fn mneme_llvm_fuse(machine: LLVMTargetMachineRef, everywhere: bool);
    fn mneme_llvm_keep_loops(module: LLVMModuleRef);
    fn mneme_llvm_widen_scopes(module: LLVMModuleRef);
    fn mneme_llvm_as_for_devices();
    fn mneme_llvm_knows_processor(triple: *const c_char, processor: *const c_char) -> bool;
    fn mneme_llvm_options(count: c_int, words: *const *const c_char) -> *mut c_char;
    fn mneme_llvm_end_without_memory();
    fn mneme_llvm_pass_names() -> *mut c_char;
    fn mneme_llvm_forward_pointers(function: LLVMValueRef);
    fn mneme_llvm_keep(function: LLVMValueRef);
    fn mneme_lld_link(count: c_int, words: *const *const c_char) -> *mut c_char;
    fn mneme_llvm_location(instruction: LLVMValueRef) -> *mut c_char;
}

/// The data for the callbacks.
struct Session<'a, 'm> {
    observer: &'a mut dyn PassObserver,
    module: &'a Module<'m>,
}

/// Clears what the NVPTX back end cached about an earlier module at the same address. Call it before running passes
/// through LLVM's own interface.
pub fn forget_annotations(module: &Module<'_>) {
    // SAFETY: the module is alive, and the back end's cache has a lock.
    unsafe { mneme_llvm_forget_annotations(module.as_mut_ptr()) };
}

/// Runs a pipeline. `instrument` enables LLVM's own options about passes (`-print-after-all`, `-opt-bisect-limit`),
/// which costs time.
///
/// # Errors
/// LLVM's message if it cannot parse the pipeline. Then no pass has run.
pub fn run(
    module: &Module<'_>,
    pipeline: &str,
    machine: &TargetMachine,
    observer: &mut dyn PassObserver,
    instrument: bool,
) -> Result<(), LlvmError> {
    let pipeline = c_text(pipeline)?;
    let mut session = Session { observer, module };
    let raw = RawObserver { user: std::ptr::from_mut(&mut session).cast(), before, after };
    // SAFETY: module, machine, text and observer live until the call returns. The callbacks get the session.
    let message =
        unsafe { mneme_llvm_run(module.as_mut_ptr(), pipeline.as_ptr(), machine.as_mut_ptr(), &raw, instrument) };
    unless_refused(message)
}

/// Parses a pipeline without running it.
///
/// # Errors
/// LLVM's message if it cannot parse the pipeline.
pub fn parse(pipeline: &str, machine: &TargetMachine) -> Result<(), LlvmError> {
    let pipeline = c_text(pipeline)?;
    // SAFETY: text and machine live until the call returns.
    unless_refused(unsafe { mneme_llvm_parse(pipeline.as_ptr(), machine.as_mut_ptr()) })
}

/// A pipeline as LLVM understands it: `default<O3>` expanded, every pass with its parameters. `None` if LLVM cannot
/// parse it.
pub fn print(pipeline: &str, machine: &TargetMachine) -> Option<String> {
    let pipeline = CString::new(pipeline).ok()?;
    // SAFETY: text and machine live until the call returns.
    take(unsafe { mneme_llvm_print(pipeline.as_ptr(), machine.as_mut_ptr()) })
}

/// Decides which optional passes of code generation run, given LLVM's names of pass and unit.
pub type PassGate<'a> = &'a mut dyn FnMut(&str, &str) -> bool;

/// Generates code for a module.
///
/// # Errors
/// LLVM's message.
pub fn emit(
    module: &Module<'_>,
    machine: &TargetMachine,
    kind: LLVMCodeGenFileType,
    gate: PassGate<'_>,
) -> Result<Vec<u8>, LlvmError> {
    let mut gate = gate;
    let mut code: LLVMMemoryBufferRef = std::ptr::null_mut();
    // SAFETY: module, machine and gate live until the call returns, and the gate is only called during the call.
    let message = unsafe {
        let user = std::ptr::from_mut(&mut gate).cast();
        mneme_llvm_emit(module.as_mut_ptr(), machine.as_mut_ptr(), kind, user, may_run, &mut code)
    };
    unless_refused(message)?;
    // SAFETY: LLVM created the buffer, which has that many bytes. This function disposes of it.
    unsafe {
        let bytes = std::slice::from_raw_parts(LLVMGetBufferStart(code).cast::<u8>(), LLVMGetBufferSize(code)).to_vec();
        LLVMDisposeMemoryBuffer(code);
        Ok(bytes)
    }
}

/// Makes code of this machine that reaches an `unreachable` stop there. Otherwise a function that consists of one has
/// no code at all, and its callers run on into other code.
pub fn trap_unreachable(machine: &TargetMachine) {
    // SAFETY: the machine is alive.
    unsafe { mneme_llvm_trap_unreachable(machine.as_mut_ptr()) }
}

/// Lets the target fuse any product into a sum (`everywhere`), or only those that the front end marked.
pub fn fuse(machine: &TargetMachine, everywhere: bool) {
    // SAFETY: the machine is alive.
    unsafe { mneme_llvm_fuse(machine.as_mut_ptr(), everywhere) }
}

extern "C" fn may_run(
    user: *mut c_void,
    pass: *const c_char,
    pass_length: usize,
    unit: *const c_char,
    unit_length: usize,
) -> bool {
    // SAFETY: `user` is the gate of the current call, on this thread. The texts live until this function returns.
    unsafe {
        let gate = &mut *user.cast::<PassGate<'_>>();
        // A pipeline calls "function (f)" "function f".
        let unit = text(unit, unit_length).replacen(" (", " ", 1);
        gate(&text(pass, pass_length), unit.trim_end_matches(')'))
    }
}

/// Whether a pass has marked the module for a planted fault of the assembler.
#[cfg(feature = "planted-faults")]
pub fn breaks_assembly(module: &Module<'_>) -> bool {
    // SAFETY: the module is alive.
    unsafe { mneme_llvm_breaks_assembly(module.as_mut_ptr()) }
}

/// Sets options of LLVM's command line for the whole process.
///
/// # Errors
/// The first option that LLVM rejects.
pub fn set_options(options: &[String]) -> Result<(), OptionError> {
    // One at a time, because LLVM names the option with an invalid value only on standard error.
    let set = |option: &String| set_option(option).map_or(Ok(()), |message| Err(OptionError::of(option, &message)));
    options.iter().try_for_each(set)
}

/// Why LLVM rejects an option of its command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    #[error("LLVM has no option {0}")]
    Unknown(String),
    /// LLVM's own message.
    #[error("{option}: {message}")]
    Refused { option: String, message: String },
    #[error("{0} needs a value, or is given twice")]
    NoValue(String),
    #[error("{option} is not a valid value of {name}, or is given twice")]
    WrongValue { option: String, name: String },
}

impl OptionError {
    /// Removes the program's name and advice for users of LLVM's command line from LLVM's message.
    fn of(option: &str, message: &str) -> Self {
        let name = option.split('=').next().unwrap_or(option);
        let (option, name) = (option.to_owned(), name.to_owned());
        if message.contains("Unknown command line argument") {
            return Self::Unknown(name);
        }
        let line = message.lines().next().map(|line| line.trim_start_matches("mneme: ").trim());
        match line.filter(|line| !line.is_empty()) {
            Some(line) => Self::Refused { option, message: line.to_owned() },
            None if option == name => Self::NoValue(option),
            None => Self::WrongValue { option, name },
        }
    }
}

/// LLVM's message, which may be empty, if it rejects the option.
fn set_option(option: &str) -> Option<String> {
    let Ok(option) = CString::new(option) else { return Some("it contains a NUL character".into()) };
    let words = [c"mneme".as_ptr(), option.as_ptr()];
    // SAFETY: the words are NUL-terminated and live until the call returns.
    take(unsafe { mneme_llvm_options(words.len() as c_int, words.as_ptr()) })
}

/// Marks loops as not to be unrolled, unless the source has a directive about unrolling.
pub fn keep_loops(module: &Module<'_>) {
    // SAFETY: the module is alive.
    unsafe { mneme_llvm_keep_loops(module.as_mut_ptr()) }
}

/// Whether the back end of an initialised triple knows a processor.
pub fn knows_processor(triple: &TargetTriple, processor: &str) -> bool {
    let Ok(processor) = CString::new(processor) else { return false };
    // SAFETY: both texts are NUL-terminated and live until the call returns.
    unsafe { mneme_llvm_knows_processor(triple.as_ptr(), processor.as_ptr()) }
}

/// Runs lld for ELF. The first word is lld's own name. Only one call runs at a time.
///
/// # Errors
/// lld's messages.
pub fn link(words: &[&str]) -> Result<(), LlvmError> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let words: Vec<CString> = words.iter().map(|word| c_text(word)).collect::<Result<_, _>>()?;
    let raw: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    // SAFETY: the words are NUL-terminated and live until the call returns, and no other call runs.
    let linked = unless_refused(unsafe { mneme_lld_link(raw.len() as c_int, raw.as_ptr()) });
    // lld has reset all of LLVM's options to their defaults.
    as_for_devices();
    linked
}

/// Makes atomic accesses and fences valid for every thread, because x86 ignores those with a scope that it does not
/// know.
pub fn widen_scopes(module: &Module<'_>) {
    // SAFETY: the module is alive.
    unsafe { mneme_llvm_widen_scopes(module.as_mut_ptr()) }
}

/// Sets LLVM's options to the values that clang uses for every device compilation.
pub fn as_for_devices() {
    // SAFETY: takes no pointers, and no pass is running.
    unsafe { mneme_llvm_as_for_devices() }
}

/// Makes a lack of memory in LLVM end the process with a message on standard error that contains "out of memory".
pub fn end_without_memory() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: takes no pointers. LLVM demands that it is called once.
    ONCE.call_once(|| unsafe { mneme_llvm_end_without_memory() });
}

/// The names of all passes, as `opt -print-passes` prints them.
pub fn pass_names() -> String {
    // SAFETY: takes no pointers.
    take(unsafe { mneme_llvm_pass_names() }).unwrap_or_default()
}

/// The source location of a live instruction: a line for its own place, and one for each call through which it was
/// inlined. A line has file, line, column and function, separated by tabs. `None` without debug information.
pub(crate) fn location(instruction: LLVMValueRef) -> Option<String> {
    // SAFETY: a live instruction, by contract.
    take(unsafe { mneme_llvm_location(instruction) })
}

/// Replaces loads of a live function from local variables that only ever hold one pointer by that pointer.
pub(crate) fn forward_pointers(function: LLVMValueRef) {
    // SAFETY: a live function, by contract, and no other reference to the erased values exists.
    unsafe { mneme_llvm_forward_pointers(function) }
}

/// Makes a live function's 32-bit floating-point operations flush denormals to zeros of the same sign.
pub(crate) fn flush_denormals(function: LLVMValueRef) {
    // SAFETY: a live function, by contract.
    unsafe { mneme_llvm_flush_denormals(function) }
}

/// The list of globals that passes keep without uses.
pub(crate) const KEPT: &str = "llvm.used";

/// Puts a live function into that list.
pub(crate) fn keep(function: LLVMValueRef) {
    // SAFETY: a live function, by contract, which is in a module.
    unsafe { mneme_llvm_keep(function) }
}

/// Takes ownership of the text at `pointer`; `None` for null.
/// LLVM's or lld's own message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LlvmError(pub String);

pub(crate) fn unless_refused(message: *mut c_char) -> Result<(), LlvmError> {
    take(message).map_or(Ok(()), |message| Err(LlvmError(message)))
}

pub(crate) fn c_text(text: &str) -> Result<CString, LlvmError> {
    CString::new(text).map_err(|_| LlvmError("it contains a NUL character".into()))
}

pub(crate) fn take(pointer: *mut c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: llvm.cpp returns NUL-terminated text from malloc, which this function frees.
    unsafe {
        let text = CStr::from_ptr(pointer).to_string_lossy().trim().to_owned();
        libc::free(pointer.cast());
        Some(text)
    }
}

/// # Safety
/// `start` must point to `length` bytes that outlive the result.
unsafe fn text<'a>(start: *const c_char, length: usize) -> std::borrow::Cow<'a, str> {
    // SAFETY: by the contract above.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

extern "C" fn before(
    user: *mut c_void,
    number: u64,
    pass: *const c_char,
    pass_length: usize,
    unit: *const c_char,
    unit_length: usize,
) -> bool {
    // SAFETY: `user` is the session of the current call, on this thread. The texts live until this function returns.
    unsafe {
        let session = &mut *user.cast::<Session<'_, '_>>();
        session.observer.before(session.module, number, &text(pass, pass_length), &text(unit, unit_length))
    }
}

extern "C" fn after(user: *mut c_void, number: u64) {
    // SAFETY: as above.
    unsafe {
        let session = &mut *user.cast::<Session<'_, '_>>();
        session.observer.after(session.module, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_options_are_named() {
        let advice =
            "mneme: Unknown command line argument '-nosuch'.  Try: 'mneme --help'\nmneme: Did you mean '--mno-hvx'?";
        let (option, name) = ("-a=b".to_owned(), "-a".to_owned());
        assert_eq!(OptionError::of("-nosuch", advice), OptionError::Unknown("-nosuch".into()));
        let message = "for the -a option: no".into();
        let refused = OptionError::Refused { option: option.clone(), message };
        assert_eq!(OptionError::of("-a=b", "mneme: for the -a option: no"), refused);
        assert_eq!(OptionError::of("-a=b", ""), OptionError::WrongValue { option, name });
    }

    #[test]
    fn llvm_reads_the_options_one_by_one() {
        let set = |option: &str| set_options(&[option.to_owned()]);
        assert_eq!(set("-no-such-thing"), Err(OptionError::Unknown("-no-such-thing".into())));
        assert!(matches!(set("-unroll-threshold=abc"), Err(OptionError::WrongValue { .. })));
    }
}
