//! The key that decides which launches count as one instance.

use mneme_model::launch::{Dim3, Launch};

use super::request::LaunchArguments;

/// The properties of a launch except its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchShape {
    grid: Dim3,
    block: Dim3,
    /// Dynamic shared memory, bytes.
    shared: u32,
    cluster: Option<Dim3>,
}

impl LaunchShape {
    #[inline]
    pub fn of(launch: &Launch) -> Self {
        Self { grid: launch.grid, block: launch.block, shared: launch.shared_mem, cluster: launch.attributes.cluster }
    }

    /// The numbers in the order of the dynamic hash.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let extents = self.grid.as_array().into_iter().chain(self.block.as_array());
        extents.chain([self.shared]).chain(self.cluster.into_iter().flat_map(|cluster| cluster.as_array()))
    }
}

/// The values that the launches of an instance share. Comparing them is cheaper than hashing. They are stored together,
/// because by the next launch the driver has evicted most of the recorder's data from the processor's caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub shape: LaunchShape,
    pub arguments: Box<[Known]>,
}

/// An argument that belongs to the identity of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub index: u32,
    /// The offset in the parameter buffer, bytes.
    pub offset: u32,
    pub value: ArgumentValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentValue {
    Four([u8; 4]),
    Eight([u8; 8]),
    Other(Box<[u8]>),
    /// An argument of unknown type that looks like an address: any address matches.
    Address,
}

impl ArgumentValue {
    pub fn of(bytes: &[u8]) -> Self {
        match bytes.len() {
            4 => Self::Four(bytes.try_into().unwrap_or_default()),
            8 => Self::Eight(bytes.try_into().unwrap_or_default()),
            _ => Self::Other(bytes.into()),
        }
    }

    /// # Safety
    /// An argument of this value's size must start there.
    #[inline]
    unsafe fn is_at(&self, start: *const u8) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Four(known) => start.cast::<[u8; 4]>().read() == *known,
                Self::Eight(known) => start.cast::<[u8; 8]>().read() == *known,
                Self::Other(known) => std::slice::from_raw_parts(start, known.len()) == &**known,
                Self::Address => may_be_address(&start.cast::<[u8; 8]>().read()),
            }
        }
    }

    /// The size in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Four(_) => 4,
            Self::Eight(_) | Self::Address => 8,
            Self::Other(known) => known.len(),
        }
    }
}

impl Key {
    /// Whether a launch in progress has this identity.
    ///
    /// # Safety
    /// The arguments must be those of a launch in progress of the key's kernel.
    #[inline]
    pub unsafe fn is_of(&self, launch: &Launch, arguments: &LaunchArguments) -> bool {
        if self.shape != LaunchShape::of(launch) {
            return false;
        }
        // SAFETY: the caller's promise.
        let places = unsafe { arguments.places() };
        let is_same = |known: &Known| {
            // SAFETY: the kernel has a parameter of this size there.
            places
                .and_then(|places| unsafe { places.of(known.index, known.offset, known.value.size()) })
                // SAFETY: the argument starts there.
                .is_some_and(|start| unsafe { known.value.is_at(start) })
        };
        self.arguments.iter().all(is_same)
    }
}

/// Whether an argument of unknown type may be a pointer: eight bytes in the range of addresses, which excludes all but
/// the smallest doubles and all usual sizes.
pub fn may_be_address(bytes: &[u8]) -> bool {
    <[u8; 8]>::try_from(bytes).is_ok_and(|bytes| (1 << 32..1 << 49).contains(&u64::from_le_bytes(bytes)))
}
