//! The handle of shared arena memory, and the reply to a request for it.
//!
//! The application passes the handle to another process, whose recorder requests the memory from this one.

use mneme_abi::cuda::sys::CUipcMemHandle;

/// The first bytes of the recorder's handles. Vendors' handles start differently.
const MAGIC: [u8; 16] = *b"mneme's arena \x01\xa7";

/// Names one allocation of one process in the 64 bytes of a `CUipcMemHandle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedHandle {
    /// Names the socket of the sharing process: random.
    pub endpoint: u64,
    /// Names the allocation in that process: counts up.
    pub number: u64,
    pub process: u32,
}

impl SharedHandle {
    pub fn encode(self) -> CUipcMemHandle {
        let mut bytes = [0; 64];
        bytes[..16].copy_from_slice(&MAGIC);
        bytes[16..24].copy_from_slice(&self.endpoint.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.process.to_le_bytes());
        CUipcMemHandle { reserved: bytes.map(|byte| byte as _) }
    }

    /// Returns `None` for a handle of the vendor.
    pub fn decode(handle: &CUipcMemHandle) -> Option<Self> {
        let bytes = handle.reserved.map(|byte| byte as u8);
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[from + index]));
        let known = bytes.starts_with(&MAGIC) && bytes[36..].iter().all(|byte| *byte == 0);
        known.then(|| Self { endpoint: number(16), number: number(24), process: number(32) as u32 })
    }

    /// The name of the socket in Linux' abstract namespace, where it disappears with the process.
    pub fn socket(endpoint: u64) -> String {
        format!("mneme-arena-{endpoint:016x}")
    }
}

/// The position of an allocation in its slabs. The slabs' descriptors follow, each with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabLayout {
    /// Bytes of the allocation.
    pub bytes: u64,
    /// Its distance from the start of the first slab, bytes.
    pub offset: u64,
    pub slabs: u64,
}

impl SlabLayout {
    pub const ENCODED: usize = 24;

    pub fn encode(self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        for (place, value) in bytes.chunks_exact_mut(8).zip([self.bytes, self.offset, self.slabs]) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: [u8; Self::ENCODED]) -> Self {
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[from + index]));
        Self { bytes: number(0), offset: number(8), slabs: number(16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(endpoint: u64, number: u64, process: u32, bytes: u64, offset: u64, slabs: u64) {
            let handle = SharedHandle { endpoint, number, process };
            prop_assert_eq!(SharedHandle::decode(&handle.encode()), Some(handle));
            let layout = SlabLayout { bytes, offset, slabs };
            prop_assert_eq!(SlabLayout::decode(layout.encode()), layout);
        }

        #[test]
        fn a_vendors_handle_is_not_ours(bytes in proptest::collection::vec(any::<u8>(), 64)) {
            let mut bytes: [u8; 64] = bytes.try_into().unwrap();
            prop_assert_eq!(SharedHandle::decode(&CUipcMemHandle { reserved: bytes.map(|byte| byte as _) }), None);
            bytes[..16].copy_from_slice(&MAGIC);
            bytes[63] |= 1;
            prop_assert_eq!(SharedHandle::decode(&CUipcMemHandle { reserved: bytes.map(|byte| byte as _) }), None);
        }
    }
}
