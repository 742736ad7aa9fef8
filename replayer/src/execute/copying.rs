//! The time in which a device copies memory: no kernel that moves as many bytes is much faster.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use mneme_device::{Device, DeviceError};

/// The most bytes of a copy. More are copied at the same rate: this exceeds the caches of the devices.
const MOST: u64 = 256 << 20;
const MOST_ON_CPU: u64 = 64 << 20;
/// The part of a device's free memory that source and target take together at most.
const PART: u64 = 4;
/// Copies that are timed together, and how often. The shortest time counts.
const COPIES: u32 = 16;
const TIMES: u32 = 5;
/// Threads do not divide less than this.
const LEAST: usize = 64 << 10;

/// The shortest time, ns, in which the device reads and writes `bytes` bytes in total. `None` if it has no free memory
/// for that.
pub fn time(device: &dyn Device, is_cpu: bool, bytes: u64) -> Result<Option<f64>, DeviceError> {
    let (free, _) = device.memory()?;
    let wanted = bytes / 2;
    let copied = wanted.min(if is_cpu { MOST_ON_CPU } else { MOST }).min(free / PART / 2);
    if copied == 0 {
        return Ok(None);
    }
    let time = if is_cpu { on_host(copied as usize) } else { on_device(device, copied)? };
    Ok(Some(time.as_secs_f64() * 1e9 / f64::from(COPIES) * (wanted as f64 / copied as f64)))
}

fn on_device(device: &dyn Device, bytes: u64) -> Result<Duration, DeviceError> {
    let buffer = device.allocate(2 * bytes)?;
    let mut shortest = Duration::MAX;
    let mut copy = || {
        device.wait()?;
        let begin = Instant::now();
        (0..COPIES).try_for_each(|_| device.copy(buffer + bytes, buffer, bytes))?;
        device.wait()?;
        shortest = shortest.min(begin.elapsed());
        Ok(())
    };
    let copied = (0..TIMES).try_for_each(|_| copy());
    device.free(buffer)?;
    copied.map(|()| shortest)
}

/// The CPU device's memory is the host's, and its kernels run on all processors.
fn on_host(bytes: usize) -> Duration {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(bytes.div_ceil(LEAST));
    let part = bytes.div_ceil(threads);
    let together = Barrier::new(threads);
    let copy = || {
        let (from, mut to) = (vec![1u8; part], vec![0u8; part]);
        let mut shortest = Duration::MAX;
        for _ in 0..TIMES {
            together.wait();
            let begin = Instant::now();
            for _ in 0..COPIES {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
            }
            together.wait();
            shortest = shortest.min(begin.elapsed());
        }
        shortest
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(copy)).collect();
        threads.into_iter().map(|thread| thread.join().expect("copying does not panic")).min()
    })
    .unwrap_or_default()
}
