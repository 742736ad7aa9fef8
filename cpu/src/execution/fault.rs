//! Faults of kernels: each ends its launch, and the device has its status from then on.

use crate::status::Status;

/// What ended a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
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
    /// It took longer than so many seconds.
    TimeLimit(u64),
    /// A panic of ours while the kernel ran.
    Internal,
}

impl Fault {
    pub fn status(&self) -> Status {
        match self {
            Fault::Assertion => Status::ASSERT,
            Fault::Signal(libc::SIGSEGV | libc::SIGBUS, _) | Fault::StackOverflow(_) => Status::ILLEGAL_ADDRESS,
            Fault::Trap | Fault::Signal(..) | Fault::Deadlock(_) | Fault::Internal => Status::LAUNCH_FAILED,
            Fault::TimeLimit(_) => Status::LAUNCH_TIMEOUT,
            Fault::NoStack(_) => Status::LAUNCH_OUT_OF_RESOURCES,
        }
    }

    /// What to tell the user, `None` if the kernel has said it itself.
    pub fn sentence(&self) -> Option<String> {
        Some(match self {
            Fault::Assertion => return None,
            Fault::Trap => "executed a trap".into(),
            Fault::Signal(libc::SIGSEGV | libc::SIGBUS, address) => format!("accessed the invalid address {address:#x}"),
            Fault::Signal(libc::SIGFPE, _) => "divided an integer by zero".into(),
            Fault::Signal(libc::SIGILL, _) => {
                "came to a place that the compiler holds to be unreachable, or executed an instruction that this processor does not have"
                    .into()
            }
            Fault::Signal(signal, _) => format!("was stopped by signal {signal}"),
            Fault::StackOverflow(size) => {
                format!("needs more than the {} KiB that the CPU device has for local memory and calls", size >> 10)
            }
            Fault::Deadlock(what) => format!("hangs: {what}"),
            Fault::NoStack(error) => format!("found no memory for its threads' stacks ({error})"),
            Fault::TimeLimit(seconds) => format!(
                "was stopped after the {seconds} s that a launch may take, as if it hung (MNEME_CPU_TIME_LIMIT sets the limit in seconds, 0 for none)"
            ),
            Fault::Internal => "ran into an error of the CPU device".into(),
        })
    }
}
