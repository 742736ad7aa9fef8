//! Faults of kernels, which end their launch and set the device's status for good.

use crate::status::Status;

/// The reason why a launch ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelFault {
    /// A failed `assert`, which has already been reported.
    Assertion,
    Trap,
    /// A signal and, for memory signals, the address.
    Signal(i32, usize),
    /// The threads of a block wait for each other forever. The text says for what.
    Deadlock(String),
    /// The thread's local memory and calls need more than its stack. Its size in bytes.
    StackOverflow(usize),
    NoStack(String),
    /// A texture or surface was used in an invalid way, which the text describes.
    Image(String),
    /// The kernel freed this address, at which it has no memory.
    InvalidFree(u64),
    /// The launch took longer than this number of seconds.
    TimeLimit(u64),
    /// The device itself panicked while the kernel ran.
    Internal,
}

impl KernelFault {
    pub fn status(&self) -> Status {
        match self {
            KernelFault::Assertion => Status::ASSERT,
            KernelFault::Signal(libc::SIGSEGV | libc::SIGBUS, _) | KernelFault::StackOverflow(_) => {
                Status::ILLEGAL_ADDRESS
            }
            KernelFault::Trap
            | KernelFault::Signal(..)
            | KernelFault::Deadlock(_)
            | KernelFault::Image(_)
            | KernelFault::InvalidFree(_)
            | KernelFault::Internal => Status::LAUNCH_FAILED,
            KernelFault::TimeLimit(_) => Status::LAUNCH_TIMEOUT,
            KernelFault::NoStack(_) => Status::LAUNCH_OUT_OF_RESOURCES,
        }
    }

    /// The message for the user, `None` if the fault has been reported already.
    pub fn sentence(&self) -> Option<String> {
        Some(match self {
            KernelFault::Assertion => return None,
            KernelFault::Trap => "executed a trap".into(),
            KernelFault::Image(how) => how.clone(),
            KernelFault::InvalidFree(address) => format!("freed the address {address:#x}, which it has not allocated"),
            KernelFault::Signal(libc::SIGSEGV | libc::SIGBUS, address) => format!("accessed the invalid address {address:#x}"),
            KernelFault::Signal(libc::SIGFPE, _) => "divided an integer by zero".into(),
            KernelFault::Signal(libc::SIGILL | libc::SIGTRAP, _) => {
                "reached code that the compiler considers unreachable, or executed an instruction that this processor lacks"
                    .into()
            }
            KernelFault::Signal(signal, _) => format!("was stopped by signal {signal}"),
            KernelFault::StackOverflow(size) => {
                format!("needs more than the {} KiB that the CPU device has for local memory and calls", size >> 10)
            }
            KernelFault::Deadlock(what) => format!("hangs: {what}"),
            KernelFault::NoStack(error) => format!("could not get memory for its threads' stacks ({error})"),
            KernelFault::TimeLimit(seconds) => format!(
                "was stopped after {seconds} s, the time limit of a launch (MNEME_CPU_TIME_LIMIT sets it in seconds, 0 for none)"
            ),
            KernelFault::Internal => "ran into an error of the CPU device".into(),
        })
    }
}
