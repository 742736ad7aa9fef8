//! What is asked at every launch, on one line of the processor's cache: what the driver does in between leaves little there.

use std::sync::atomic::AtomicBool;

#[repr(align(64))]
pub struct Asked {
    /// The hooks of all threads are switched off.
    pub off: AtomicBool,
    /// This process has begun to launch, records, and has not ended.
    pub records: AtomicBool,
    /// Some launches are left out by their number.
    pub leaves_out: AtomicBool,
}

pub static ASKED: Asked = Asked { off: AtomicBool::new(false), records: AtomicBool::new(false), leaves_out: AtomicBool::new(false) };
