//! Measures how fast a device copies memory and computes.
//!
//! No kernel that moves as many bytes, or performs as many operations, is much faster.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use mneme_device::{Device, DeviceError};
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

use super::fma::{Vectors, Width};

/// The most bytes of a copy. More are copied at the same rate: this exceeds the caches of the devices.
const MOST: u64 = 256 << 20;
const MOST_ON_CPU: u64 = 64 << 20;
/// The part of a device's free memory that source and target take together at most.
const PART: u64 = 4;
/// Copies that are timed together.
const COPIES: u32 = 16;
/// How often to measure. The shortest time counts.
const TIMES: u32 = 5;
/// Threads do not divide less than this.
const LEAST: usize = 64 << 10;
/// Blocks of a GPU's multiprocessor and threads of a block; together they fill it. If the driver does not report the
/// number of multiprocessors, it is assumed to be this.
const BLOCKS: u32 = 8;
const THREADS: u32 = 256;
const MULTIPROCESSORS: u32 = 256;
/// Rounds of independent fused multiply-adds, and how many a GPU's thread performs in each: around a millisecond.
const ROUNDS: u32 = 512;
const ROUNDS_ON_CPU: u32 = 200_000;
const CHAINS: u32 = 8;
const REPEATED: u32 = 16;

/// The shortest time, ns, in which the device reads and writes `bytes` bytes in total. `None` if it has no free memory
/// for that.
pub fn copying(device: &dyn Device, is_cpu: bool, bytes: u64) -> Result<Option<f64>, DeviceError> {
    let (free, _) = device.memory()?;
    let wanted = bytes / 2;
    let copied = wanted.min(if is_cpu { MOST_ON_CPU } else { MOST }).min(free / PART / 2);
    if copied == 0 {
        return Ok(None);
    }
    let time = if is_cpu { copying_on_host(copied as usize) } else { copying_on_device(device, copied)? };
    Ok(Some(time.as_secs_f64() * 1e9 / f64::from(COPIES) * (wanted as f64 / copied as f64)))
}

/// The highest rate of operations on numbers of a width: that of fused multiply-adds, each of which counts as two.
/// `None` if it cannot be measured.
pub fn flops_per_ns(device: &dyn Device, is_cpu: bool, width: Width) -> Result<Option<f64>, DeviceError> {
    let (flops, time) = if is_cpu {
        let Some(vectors) = Vectors::find(width) else { return Ok(None) };
        let threads = processors();
        let time = shortest_on_host(threads, || || vectors.run(ROUNDS_ON_CPU));
        (threads as f64 * f64::from(ROUNDS_ON_CPU) * vectors.flops() as f64, time)
    } else {
        computing_on_device(device, width)?
    };
    Ok((!time.is_zero()).then(|| flops / (time.as_secs_f64() * 1e9)))
}

fn copying_on_device(device: &dyn Device, bytes: u64) -> Result<Duration, DeviceError> {
    let buffer = device.allocate(2 * bytes)?;
    let copies = || (0..COPIES).try_for_each(|_| device.copy(buffer + bytes, buffer, bytes));
    let copied = shortest_on_device(device, copies);
    device.free(buffer)?;
    copied
}

/// The operations of a launch that fills the device, and its shortest time.
fn computing_on_device(device: &dyn Device, width: Width) -> Result<(f64, Duration), DeviceError> {
    let module = device.load((source(width) + "\0").as_bytes())?;
    let function = device.function(module, "mneme_compute")?;
    let multiprocessors = device.description().limits.multiprocessors.unwrap_or(MULTIPROCESSORS);
    let launch = Launch {
        grid: Dim3::new(multiprocessors.saturating_mul(BLOCKS), 1, 1),
        block: Dim3::new(THREADS, 1, 1),
        shared_mem: 0,
        attributes: LaunchAttributes::default(),
    };
    let arguments = [vec![0; 8], ROUNDS.to_le_bytes().to_vec()];
    let time = shortest_on_device(device, || device.enqueue(function, &launch, &arguments));
    device.unload(module)?;
    let each = u64::from(ROUNDS * CHAINS * REPEATED) * if width == Width::Half { 4 } else { 2 };
    Ok((launch.grid.count() as f64 * f64::from(THREADS) * each as f64, time?))
}

/// PTX of chains of fused multiply-adds, whose results go to an address unless it is 0.
fn source(width: Width) -> String {
    let (ty, register, one, half) = match width {
        Width::Half => ("f16x2", "b32", "0x3c003c00", "0x38003800"),
        Width::Single => ("f32", "f32", "0f3f800000", "0f3f000000"),
        Width::Double => ("f64", "f64", "0d3ff0000000000000", "0d3fe0000000000000"),
    };
    let each = |line: &dyn Fn(u32) -> String| (0..CHAINS).map(line).collect::<String>();
    let begin = each(&|chain| format!("\tmov.{register} %x{chain}, {one};\n"));
    let round = each(&|chain| format!("\tfma.rn.{ty} %x{chain}, %x{chain}, %half, %one;\n"));
    let end = each(&|chain| format!("\t@%p st.global.{register} [%out+{}], %x{chain};\n", 8 * chain));
    format!(
        ".version 6.0
.target sm_60
.address_size 64
.visible .entry mneme_compute(.param .u64 out, .param .u32 rounds)
.maxntid {THREADS}, 1, 1
{{
	.reg .pred %p;
	.reg .b32 %left;
	.reg .b64 %out;
	.reg .{register} %x<{CHAINS}>, %one, %half;
	ld.param.u64 %out, [out];
	ld.param.u32 %left, [rounds];
	mov.{register} %one, {one};
	mov.{register} %half, {half};
{begin}ROUND:
{}	sub.u32 %left, %left, 1;
	setp.ne.u32 %p, %left, 0;
	@%p bra ROUND;
	setp.ne.u64 %p, %out, 0;
{end}	ret;
}}
",
        round.repeat(REPEATED as usize)
    )
}

fn shortest_on_device(
    device: &dyn Device,
    enqueue: impl Fn() -> Result<(), DeviceError>,
) -> Result<Duration, DeviceError> {
    let mut shortest = Duration::MAX;
    for _ in 0..TIMES {
        device.wait()?;
        let begin = Instant::now();
        enqueue()?;
        device.wait()?;
        shortest = shortest.min(begin.elapsed());
    }
    Ok(shortest)
}

/// The CPU device's memory is the host's, and its kernels run on all processors.
fn copying_on_host(bytes: usize) -> Duration {
    let threads = processors().min(bytes.div_ceil(LEAST));
    let part = bytes.div_ceil(threads);
    shortest_on_host(threads, || {
        let (from, mut to) = (vec![1u8; part], vec![0u8; part]);
        move || {
            for _ in 0..COPIES {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
            }
        }
    })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The shortest time in which all threads do the work that each prepares.
fn shortest_on_host<W: FnMut()>(threads: usize, prepare: impl Fn() -> W + Sync) -> Duration {
    let together = Barrier::new(threads);
    let measure = || {
        let mut work = prepare();
        let mut shortest = Duration::MAX;
        for _ in 0..TIMES {
            together.wait();
            let begin = Instant::now();
            work();
            together.wait();
            shortest = shortest.min(begin.elapsed());
        }
        shortest
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(measure)).collect();
        threads.into_iter().map(|thread| thread.join().expect("the work does not panic")).min()
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_computes_single_faster_than_double() {
        let rate = |width| {
            let vectors = Vectors::find(width)?;
            let time = shortest_on_host(1, || || vectors.run(ROUNDS_ON_CPU));
            Some(f64::from(ROUNDS_ON_CPU) * vectors.flops() as f64 / time.as_secs_f64())
        };
        let [Some(single), Some(double)] = [Width::Single, Width::Double].map(rate) else { return };
        // One thread: no processor does less than an operation a nanosecond, or more than 1,000.
        assert!(single > double && double > 1e9 && single < 1e12, "{single} {double}");
    }

    #[test]
    fn the_source_has_as_many_operations_as_are_counted() {
        for (width, ty) in Width::ALL.into_iter().zip(["f16x2", "f32", "f64"]) {
            let source = source(width);
            assert_eq!(source.matches(&format!("fma.rn.{ty} ")).count() as u32, CHAINS * REPEATED, "{source}");
        }
    }
}
