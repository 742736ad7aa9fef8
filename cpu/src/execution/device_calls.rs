//! The functions that kernels import (docs/reference/cpu-code-objects.md).
//!
//! They run on the fiber of a kernel's thread. While the fiber pauses, none of them may hold a value that needs
//! dropping, because a fault elsewhere in the block abandons the fiber's stack.

use std::ffi::{CStr, c_char};

use super::block::{self, CodeLocation, RunningThread};
use super::fault::KernelFault;
use super::images::Image;
use super::messages;
use super::stack::Pause;
use super::warp::{Class, LANES, Operation, WarpRequest, result};
use crate::architecture::{self, with_call_site};

pub fn thread_address() -> *const () {
    architecture::context_function()
}

pub extern "C" fn barrier(id: u32, count: u32) {
    barrier_counts(id, count, 0);
}

/// `bar.arrive`: counts at a barrier without waiting for it.
pub extern "C" fn barrier_arrive(id: u32, count: u32) {
    let block = running().block;
    if !block.is_null() {
        block::arrive(block, id, count);
    }
}

pub extern "C" fn barrier_vote(id: u32, count: u32, kind: u32, predicate: u32) -> u32 {
    let (holding, threads) = barrier_counts(id, count, predicate);
    match kind {
        0 => holding,
        1 => u32::from(holding == threads),
        _ => u32::from(holding != 0),
    }
}

fn barrier_counts(id: u32, count: u32, predicate: u32) -> (u32, u32) {
    match running().block {
        block if block.is_null() => (u32::from(predicate != 0), 1),
        waiting => block::barrier(waiting, id, count, predicate),
    }
}

/// Takes part in a warp operation. In a kernel that promised to use none, the thread is alone in its warp.
pub fn warp_operation(class: Class, mask: u32, operation: Operation) -> u64 {
    match running().block {
        block if block.is_null() => alone(operation),
        waiting => block::warp_operation(waiting, WarpRequest { class, mask: u64::from(mask) }, operation),
    }
}

/// The same for operations in which the lanes at the same call take part.
fn site_operation(site: CodeLocation, operation: Operation) -> u64 {
    match running().block {
        block if block.is_null() => alone(operation),
        waiting => block::site_operation(waiting, site, operation),
    }
}

fn alone(operation: Operation) -> u64 {
    let lane = lane();
    let mut operations = [Operation::Sync; LANES];
    operations[lane as usize] = operation;
    result(lane, 1 << lane, &operations)
}

/// The thread or loop that is running. The caller is kernel code.
fn running() -> &'static RunningThread {
    // SAFETY: kernel code runs only while this is set. The value does not move until the fiber has ended or been
    // abandoned, and no caller keeps the reference.
    unsafe { &*block::running() }
}

pub fn lane() -> u32 {
    running().context.lane
}

pub extern "C" fn warp_sync(mask: u32) {
    warp_operation(Class::Sync, mask, Operation::Sync);
}

pub extern "C" fn shuffle(kind: u32, mask: u32, value: u32, lane: u32, clamp: u32) -> u64 {
    warp_operation(Class::Shuffle, mask, Operation::Shuffle { kind, value, lane, clamp })
}

pub extern "C" fn vote(kind: u32, mask: u32, predicate: u32) -> u32 {
    warp_operation(Class::Vote, mask, Operation::Vote { kind, predicate: predicate != 0 }) as u32
}

pub extern "C" fn match_lanes(kind: u32, mask: u32, value: u64) -> u64 {
    warp_operation(Class::Match, mask, Operation::Match { kind, value })
}

pub extern "C" fn redux(kind: u32, mask: u32, value: u32) -> u32 {
    warp_operation(Class::Redux, mask, Operation::Redux { kind, value }) as u32
}

/// `__mneme_cpu_wave_site`: sets the number of the wave's next operation, for that operation only.
pub extern "C" fn wave_site(number: u32) {
    running().number.set(number);
}

/// `__mneme_cpu_wave_enter`: begins a call, by its number, in which lanes may converge.
pub extern "C" fn wave_enter(call: u32) {
    let waiting = running().block;
    if !waiting.is_null() {
        block::enter(waiting, call);
    }
}

/// `__mneme_cpu_wave_leave`: ends the innermost of such calls.
pub extern "C" fn wave_leave() {
    let waiting = running().block;
    if !waiting.is_null() {
        block::leave(waiting);
    }
}

fn numbered_operation(address: usize, operation: Operation) -> u64 {
    site_operation(CodeLocation::at(running().number.replace(u32::MAX), address), operation)
}

with_call_site! {
    activemask() -> u32, activemask_address, argument 0: activemask_at;
    wave_ballot(_predicate) -> u64, wave_ballot_address, argument 1: wave_ballot_at;
    wave_exchange(_value, _source) -> u64, wave_exchange_address, argument 2: wave_exchange_at;
    wave_permute(_value, _destination) -> u64, wave_permute_address, argument 2: wave_permute_at;
}

extern "C" fn activemask_at(address: usize) -> u32 {
    numbered_operation(address, Operation::Active) as u32
}

extern "C" fn wave_ballot_at(predicate: u32, address: usize) -> u64 {
    numbered_operation(address, Operation::Ballot { predicate: predicate != 0 })
}

extern "C" fn wave_exchange_at(value: u32, source: u32, address: usize) -> u64 {
    numbered_operation(address, Operation::Exchange { value, source })
}

extern "C" fn wave_permute_at(value: u32, destination: u32, address: usize) -> u64 {
    numbered_operation(address, Operation::Permute { value, destination })
}

/// `__mneme_cpu_converge`: lanes of a warp that reach this site continue together.
pub extern "C" fn converge(site: u32) {
    gather(site, Operation::Sync);
}

/// `__mneme_cpu_wave_converge`: the same for the lanes of an AMD wave.
pub extern "C" fn wave_converge(site: u32) {
    gather(site, Operation::Gather);
}

fn gather(site: u32, operation: Operation) {
    let waiting = running().block;
    if !waiting.is_null() {
        block::site_operation(waiting, CodeLocation::numbered(site), operation);
    }
}

pub extern "C" fn implicit_arguments() -> *const u8 {
    // SAFETY: the launch keeps it until its threads have ended.
    unsafe { (*running().dispatch).hidden_arguments() }
}

pub extern "C" fn dispatch_packet() -> *const u8 {
    // SAFETY: as above.
    unsafe { (*running().dispatch).packet() }
}

/// `__mneme_cpu_grid_workspace`. Its halves are `%envreg1` and `%envreg2`.
pub extern "C" fn grid_workspace() -> u64 {
    // SAFETY: as above.
    unsafe { (*running().dispatch).workspace() as u64 }
}

/// The texture or surface object of a handle.
pub fn image(handle: u64) -> Option<&'static Image> {
    // SAFETY: as above; no caller keeps the reference.
    unsafe { (*running().dispatch).image(handle) }
}

/// `__mneme_cpu_cluster_arrive`
pub extern "C" fn cluster_arrive() {
    let running = running();
    if !running.cluster.is_null() {
        // SAFETY: the cluster outlives the block's threads.
        running.arrival.set(Some(unsafe { (*running.cluster).arrive() }));
    }
}

/// `__mneme_cpu_cluster_wait`
pub extern "C" fn cluster_wait() {
    let running = running();
    let Some(turn) = running.arrival.get() else { return };
    // SAFETY: as above.
    while !unsafe { (*running.cluster).is_complete(turn) } {
        give_way();
    }
}

/// `__mneme_cpu_yield`: lets other threads run.
pub extern "C" fn give_way() {
    // SAFETY: the yielder of the running fiber. The worker resumes the fiber or abandons it.
    unsafe { (*running().yielder.get()).suspend(Pause::GivesWay) };
}

/// `__mneme_cpu_malloc`: returns null if the heap has no room.
pub extern "C" fn allocate(bytes: u64) -> u64 {
    // SAFETY: the launch keeps it until its threads have ended.
    unsafe { (*running().dispatch).heap().allocate(bytes) }
}

/// `__mneme_cpu_free`
pub extern "C" fn release(address: u64) {
    // SAFETY: as above.
    if !unsafe { (*running().dispatch).heap().release(address) } {
        fail(KernelFault::InvalidFree(address));
    }
}

pub extern "C" fn printf(format: *const u8, arguments: *const u8) -> i32 {
    // SAFETY: the compiler passes the operands of the kernel's `vprintf`.
    unsafe { super::printf::vprintf(format.cast(), arguments) }
}

pub extern "C" fn ockl_printf_begin(_version: u64) -> u64 {
    messages::begin(running().dispatch, messages::Channel::Output)
}

pub extern "C" fn ockl_fprintf_stderr_begin() -> u64 {
    messages::begin(running().dispatch, messages::Channel::Errors)
}

#[allow(clippy::too_many_arguments, reason = "the signature in ROCm's device library")]
pub extern "C" fn ockl_printf_append_args(
    message: u64,
    count: u32,
    a0: u64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    last: u32,
) -> u64 {
    let values = [a0, a1, a2, a3, a4, a5, a6];
    messages::append_numbers(message, &values[..values.len().min(count as usize)], last != 0)
}

pub extern "C" fn ockl_printf_append_string_n(message: u64, text: *const u8, length: u64, last: u32) -> u64 {
    // SAFETY: the compiler passes a string of the kernel and its length.
    unsafe { messages::append_text(message, text, length as usize, last != 0) }
}

/// Ends the launch from inside a kernel.
pub fn fail(fault: KernelFault) -> ! {
    // SAFETY: the yielder of the running fiber. The worker abandons the fiber on a fault.
    unsafe { (*running().yielder.get()).suspend(Pause::Fault(fault)) };
    unreachable!("a fiber that has failed is never resumed")
}

fn text<'a>(pointer: *const u8) -> std::borrow::Cow<'a, str> {
    if pointer.is_null() {
        return "?".into();
    }
    // SAFETY: the operands of a device-side assert are string literals of the kernel's object.
    unsafe { CStr::from_ptr(pointer.cast::<c_char>()) }.to_string_lossy()
}

pub extern "C" fn assert_failed(message: *const u8, file: *const u8, line: u32, function: *const u8) -> ! {
    {
        let here = &running().context;
        let [block_x, block_y, block_z] = here.ctaid;
        let [x, y, z] = here.tid;
        let (file, function, message) = (text(file), text(function), text(message));
        // CUDA's own format of the report, which scripts parse.
        let line = format!(
            "{file}:{line}: {function}: block: [{block_x},{block_y},{block_z}], thread: [{x},{y},{z}] Assertion `{message}` failed.\n"
        );
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }
    fail(KernelFault::Assertion)
}

pub extern "C" fn trap() -> ! {
    fail(KernelFault::Trap)
}

pub extern "C" fn clock() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place to write.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
