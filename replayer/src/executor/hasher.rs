//! Comparing memory with the recording on the device, by the identities of its chunks.
//!
//! Reading a chunk back over the bus costs a hundred times what hashing it in place does, so a GPU hashes everything and only chunks
//! whose identity is another one are read back. The CPU device has no bus and runs no PTX: there memory is compared directly.

use mneme_core::chunk_hash::{self, Stretch};
use mneme_core::device::{Device, DeviceError, Function};
use mneme_core::hash::ChunkId;
use mneme_core::launch::{Dim3, Launch, LaunchAttributes};

use crate::snapshot::Region;

/// Hashes the recorded memory after a launch and knows what it should be.
pub struct Hasher {
    function: Function,
    /// Tables on the device: what to hash, and the identities found.
    stretches: u64,
    ids: u64,
    /// Region, chunk, and its identity after the recorded launch.
    chunks: Vec<(usize, usize, ChunkId)>,
}

impl Hasher {
    /// Prepares hashing the given regions (by their numbers), those that are aligned for it.
    pub fn new<'a>(device: &dyn Device, regions: impl Iterator<Item = (usize, &'a Region)>) -> Result<Self, DeviceError> {
        let module = device.load(chunk_hash::CODE.to_bytes_with_nul())?;
        let function = device.function(module, &chunk_hash::ENTRY.to_string_lossy())?;
        let mut chunks = Vec::new();
        let mut table = Vec::new();
        for (number, region) in regions.filter(|(_, region)| is_suitable(region)) {
            for (index, id) in region.ids_after().enumerate() {
                let (offset, length) = region.extent(index);
                chunks.push((number, index, id));
                table.extend_from_slice(&Stretch { address: region.address + offset, length }.to_bytes());
            }
        }
        let bytes = (table.len() as u64).max(16);
        let (stretches, ids) = (device.allocate(bytes)?, device.allocate(bytes)?);
        device.write(stretches, &table)?;
        Ok(Self { function, stretches, ids, chunks })
    }

    /// The chunks that are not as recorded, in order: region and chunk.
    pub fn differing(&self, device: &dyn Device) -> Result<Vec<(usize, usize)>, DeviceError> {
        let Ok(grid) = u32::try_from(self.chunks.len()) else { return Ok(self.places().collect()) };
        if grid == 0 {
            return Ok(Vec::new());
        }
        let launch = Launch {
            grid: Dim3::new(grid, 1, 1),
            block: Dim3::new(chunk_hash::THREADS, 1, 1),
            shared_mem: 0,
            attributes: LaunchAttributes::default(),
        };
        let parameters = chunk_hash::parameters(self.stretches, self.ids);
        device.run(self.function, &launch, &parameters)?;
        let mut found = vec![0; self.chunks.len() * 16];
        device.read(self.ids, &mut found)?;
        let recorded = self.chunks.iter().map(|(.., id)| *id);
        Ok(self
            .places()
            .zip(chunk_hash::ids(&found).zip(recorded))
            .filter(|(_, (found, recorded))| found != recorded)
            .map(|(place, _)| place)
            .collect())
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.chunks.iter().map(|(region, chunk, _)| (*region, *chunk))
    }
}

/// Whether the kernel can read a region.
pub fn is_suitable(region: &Region) -> bool {
    region.address.is_multiple_of(chunk_hash::ALIGNMENT)
}
