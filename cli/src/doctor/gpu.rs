//! Checks GPUs, their drivers, and the libraries that time and watch them.

use std::path::Path;

use libloading::Library;
use mneme_abi::cuda::driver::pointers;
use mneme_abi::cuda::status::Status;
use mneme_device::{cuda, hip};
use mneme_system::toolkits;

use super::Check;

const CPU: &str = "to record and replay without a GPU, pass --device cpu";

pub fn checks() -> Vec<Check> {
    let cuda = cuda();
    let has_gpu = cuda.remedy.is_none();
    let mut checks = vec![cuda];
    if has_gpu {
        checks.extend([nvml(), cupti()]);
    }
    checks.push(hip_runtime());
    checks
}

/// Asks the driver itself.
fn cuda() -> Check {
    let has_nodes = Path::new("/dev/nvidiactl").exists();
    // SAFETY: this is the vendor's library, which every CUDA program initialises.
    let library = match unsafe { Library::new(cuda::LIBRARY) } {
        Ok(library) => library,
        Err(_) if has_nodes => {
            return Check::absent(
                "cuda",
                format!("there is a GPU, but no {} on the library path", cuda::LIBRARY),
                "in a container, mount the driver's libraries (docker run --gpus all); otherwise install NVIDIA's driver",
            );
        }
        Err(_) => return Check::absent("cuda", "no NVIDIA GPU or driver", CPU),
    };
    let (mut version, mut count) = (0, 0);
    // SAFETY: the functions have these types, and write one number each.
    let answer = unsafe {
        let _ = library.get::<pointers::cuDriverGetVersion>(b"cuDriverGetVersion\0").map(|call| call(&mut version));
        match library.get::<pointers::cuInit>(b"cuInit\0").map_or(Status::NOT_FOUND, |call| call(0)) {
            Status::SUCCESS => library
                .get::<pointers::cuDeviceGetCount>(b"cuDeviceGetCount\0")
                .map_or(Status::NOT_FOUND, |call| call(&mut count)),
            error => error,
        }
    };
    // A driver that has started threads must not be unloaded.
    std::mem::forget(library);
    let version = format!("{}.{}", version / 1000, version % 1000 / 10);
    match answer {
        Status::SUCCESS if count > 0 => {
            Check::ok("cuda", format!("{count} GPU{}, driver for CUDA {version}", if count == 1 { "" } else { "s" }))
        }
        Status::SUCCESS | Status::NO_DEVICE => Check::absent(
            "cuda",
            format!("the driver (CUDA {version}) sees no GPU"),
            format!("check CUDA_VISIBLE_DEVICES; {CPU}"),
        ),
        Status(error) => Check::absent(
            "cuda",
            format!("the driver (CUDA {version}) does not start: error {error}"),
            format!(
                "run nvidia-smi for details (999 and 802: the kernel module or the fabric manager is not up); {CPU}"
            ),
        ),
    }
}

fn nvml() -> Check {
    // SAFETY: this is a library of the driver; none of its functions is called.
    match unsafe { Library::new("libnvidia-ml.so.1") } {
        Ok(_) => Check::ok("nvml", "libnvidia-ml.so.1"),
        Err(error) => Check::absent(
            "nvml",
            format!("clocks, temperatures and energy are not reported: {error}"),
            "in a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
    }
}

fn cupti() -> Check {
    let places = ["lib64/libcupti.so", "extras/CUPTI/lib64/libcupti.so", "lib/libcupti.so"];
    let found = toolkits::toolkits().into_iter().find_map(|root| {
        places.iter().map(|place| root.join(place)).find(|path| {
            path.exists() || path.with_extension("so.12").exists() || path.with_extension("so.13").exists()
        })
    });
    match found {
        Some(path) => Check::ok("cupti", path.display().to_string()),
        None => Check::absent(
            "cupti",
            "no CUPTI in a toolkit, so events time kernels",
            "to time kernels of a few microseconds (--timer cupti), install CUDA's CUPTI",
        ),
    }
}

fn hip_runtime() -> Check {
    match hip::library() {
        Some(path) if Path::new("/dev/kfd").exists() => Check::ok("hip", path.display().to_string()),
        Some(path) => Check::absent("hip", format!("{}, but no AMD GPU (/dev/kfd)", path.display()), CPU),
        None => Check::absent("hip", "no HIP runtime", format!("for programs on AMD GPUs, install ROCm; {CPU}")),
    }
}
