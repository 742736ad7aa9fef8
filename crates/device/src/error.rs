//! Errors of a device, each in one sentence for the user.

#[derive(Clone, Debug, thiserror::Error)]
pub enum DeviceError {
    /// The driver's library is not there or is not a driver.
    #[error("{library} cannot be used: {message}")]
    Library { library: String, message: String },
    #[error("{library} finds no device")]
    NoDevice { library: String },
    #[error("there is no device {ordinal}; {library} shows {count}")]
    NoSuchDevice { library: String, ordinal: i32, count: i32 },
    /// The address range is taken in this process.
    #[error("the address range 0x{address:x}+0x{size:x} is taken in this process")]
    Clash { address: u64, size: u64 },
    #[error("the device has no room for {size} bytes more")]
    OutOfMemory { size: u64 },
    /// Any other failure of a driver call.
    #[error("{name}: {text} ({function})")]
    Call { function: &'static str, code: u32, name: String, text: String },
    /// A launch that the device would take, and the one that the code is for would not.
    #[error("{0}")]
    Refused(String),
}

impl DeviceError {
    /// Whether a launch, or what a launch had to be allowed before, was refused: nothing has run.
    pub fn is_refused_launch(&self) -> bool {
        const LAUNCHES: [&str; 3] = ["cuLaunch", "cuFunc", "hipModuleLaunch"];
        const LIMITS: [&str; 2] = ["cuCtxSetLimit", "hipDeviceSetLimit"];
        match self {
            Self::Call { function, .. } => {
                LAUNCHES.iter().any(|start| function.starts_with(start)) || LIMITS.contains(function)
            }
            Self::Refused(_) => true,
            _ => false,
        }
    }
}
