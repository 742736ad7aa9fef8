//! The results of the device's functions.

pub use mneme_abi::cuda::status::Status;

/// What a function of the ABI gives back before it becomes a number.
pub type StatusResult = Result<(), Status>;

/// For a call that must not fail because of an earlier fault of a kernel.
pub fn of(done: StatusResult) -> Status {
    done.err().unwrap_or(Status::SUCCESS)
}
