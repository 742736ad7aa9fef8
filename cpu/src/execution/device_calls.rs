//! The functions that kernels import (docs/how-it-works/cpu-device.md).
//!
//! They run on the fiber of a kernel's thread. None holds anything that needs dropping while the fiber pauses, because
//! a fault elsewhere in the block leaves the fiber's stack behind as it is.

use std::ffi::{CStr, c_char};

use super::block::{self, RunningThread};
use super::context;
use super::fault::KernelFault;
use super::stack::Pause;
use super::warp::{Class, Operation, WarpRequest};

pub fn thread_address() -> *const () {
    context::running_address()
}

pub extern "C" fn barrier(id: u32, count: u32) {
    barrier_reduce_counts(id, count, 0);
}

pub extern "C" fn barrier_reduce(kind: u32, predicate: u32) -> u32 {
    let (holding, threads) = barrier_reduce_counts(0, 0, predicate);
    match kind {
        0 => holding,
        1 => u32::from(holding == threads),
        _ => u32::from(holding != 0),
    }
}

fn barrier_reduce_counts(id: u32, count: u32, predicate: u32) -> (u32, u32) {
    match running().block {
        block if block.is_null() => (u32::from(predicate != 0), 1),
        waiting => block::barrier(waiting, id, count, predicate),
    }
}

/// A thread of a kernel that promised not to use warp operations is alone in its warp.
fn warp_operation(class: Class, mask: u32, operation: Operation) -> u64 {
    match running().block {
        block if block.is_null() => {
            let lane = lane();
            let mut operations = [Operation::Sync; 32];
            operations[lane as usize] = operation;
            super::warp::result(lane, 1 << lane, &operations)
        }
        waiting => block::warp_operation(waiting, WarpRequest { class, mask }, operation),
    }
}

/// What runs: the caller is kernel code.
fn running() -> &'static RunningThread {
    // SAFETY: kernel code runs only where this is set, and it lies still until the fiber has ended or been left; no
    // caller keeps the reference.
    unsafe { &*block::running() }
}

fn lane() -> u32 {
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

/// `__mneme_cpu_activemask`: lanes are grouped by where they call it from, which is the return address.
#[unsafe(naked)]
extern "C" fn activemask() -> u32 {
    std::arch::naked_asm!("mov rdi, qword ptr [rsp]", "jmp {}", sym activemask_at)
}

pub fn activemask_address() -> *const () {
    activemask as *const ()
}

extern "C" fn activemask_at(site: usize) -> u32 {
    match running().block {
        block if block.is_null() => 1 << lane(),
        waiting => block::active_mask(waiting, site),
    }
}

/// `__mneme_cpu_converge`: the lanes of a warp that come to this site go on together.
pub extern "C" fn converge(site: u32) {
    let waiting = running().block;
    if !waiting.is_null() {
        block::converge(waiting, site as usize);
    }
}

/// `__mneme_cpu_yield`: others have a turn.
pub extern "C" fn give_way() {
    // SAFETY: the yielder of the running fiber, whose worker resumes it or leaves it behind.
    unsafe { (*running().yielder.get()).suspend(Pause::GivesWay) };
}

pub extern "C" fn printf(format: *const u8, arguments: *const u8) -> i32 {
    // SAFETY: the compiler passes the operands of the kernel's `vprintf`.
    unsafe { super::printf::vprintf(format.cast(), arguments) }
}

/// Ends the launch from inside a kernel.
fn fail(fault: KernelFault) -> ! {
    // SAFETY: the yielder of the running fiber; whoever resumed it leaves the fiber behind on a fault.
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
        // The wording of CUDA's own report, which scripts look for.
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
