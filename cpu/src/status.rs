//! The results of the device's functions.

pub use mneme_abi::cuda::status::Status;

/// The result of a function of the ABI, before it becomes a number.
pub type StatusResult = Result<(), Status>;

/// Converts a result to a number.
pub fn of(done: StatusResult) -> Status {
    done.err().unwrap_or(Status::SUCCESS)
}
