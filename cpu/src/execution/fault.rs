//! Faults of kernels: each ends its launch, and the device has its status from then on.

use crate::status::Status;

/// What ended a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelFault {
    /// A failed `assert`, already reported where it happened.
    Assertion,
    Trap,
    /// A signal and, for memory signals, the address.
    Signal(i32, usize),
    /// The threads of a block wait for one another without end; says for what.
    Deadlock(String),
    /// The thread's local memory and calls need more than its stack; its size in bytes.
    StackOverflow(usize),
    NoStack(String),
    /// A texture or surface was used in a way that it cannot be; says how.
    Image(String),
    /// It took longer than so many seconds.
    TimeLimit(u64),
    /// A panic of ours while the kernel ran.
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
            | KernelFault::Internal => Status::LAUNCH_FAILED,
            KernelFault::TimeLimit(_) => Status::LAUNCH_TIMEOUT,
            KernelFault::NoStack(_) => Status::LAUNCH_OUT_OF_RESOURCES,
        }
    }

    /// What to tell the user, `None` if the kernel has said it itself.
    pub fn sentence(&self) -> Option<String> {
        Some(match self {
            KernelFault::Assertion => return None,
            KernelFault::Trap => "executed a trap".into(),
            KernelFault::Image(how) => how.clone(),
            KernelFault::Signal(libc::SIGSEGV | libc::SIGBUS, address) => format!("accessed the invalid address {address:#x}"),
            KernelFault::Signal(libc::SIGFPE, _) => "divided an integer by zero".into(),
            KernelFault::Signal(libc::SIGILL | libc::SIGTRAP, _) => {
                "came to a place that the compiler holds to be unreachable, or executed an instruction that this processor does not have"
                    .into()
            }
            KernelFault::Signal(signal, _) => format!("was stopped by signal {signal}"),
            KernelFault::StackOverflow(size) => {
                format!("needs more than the {} KiB that the CPU device has for local memory and calls", size >> 10)
            }
            KernelFault::Deadlock(what) => format!("hangs: {what}"),
            KernelFault::NoStack(error) => format!("found no memory for its threads' stacks ({error})"),
            KernelFault::TimeLimit(seconds) => format!(
                "was stopped after the {seconds} s that a launch may take, as if it hung (MNEME_CPU_TIME_LIMIT sets the limit in seconds, 0 for none)"
            ),
            KernelFault::Internal => "ran into an error of the CPU device".into(),
        })
    }
}
