//! GPUs that nobody uses, as NVML knows them.

use std::ffi::OsStr;
use std::path::Path;

use nvml_wrapper::{Device, Nvml};

const LIBRARY: &str = "libnvidia-ml.so.1";
/// The name space of process numbers that the machine has itself, as `/proc/self/ns/pid` says it.
const MACHINE: &str = "pid:[4026531836]";

/// What a GPU has to be like, so that what is found on it holds where it was recorded.
pub struct TunedGpu {
    /// As recordings have it: "sm_90".
    pub arch: String,
    /// "NVIDIA H200"; empty where the recording does not say.
    pub name: String,
}

/// NVML on a machine whose processes it can name.
pub struct IdleGpus {
    nvml: Nvml,
    /// Those that CUDA sees here, as `CUDA_VISIBLE_DEVICES` has it.
    visible: Option<String>,
}

/// A GPU that was idle when it was found.
pub struct IdleGpu<'a> {
    device: Device<'a>,
    uuid: String,
}

impl IdleGpus {
    /// # Errors
    /// A clause that says why nothing can be known.
    pub fn open() -> Result<Self, String> {
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if space != Path::new(MACHINE) {
            return Err(
                "in a container it is not known whose the processes on a GPU are; name one with --background=N".into(),
            );
        }
        Self::of(OsStr::new(LIBRARY), std::env::var("CUDA_VISIBLE_DEVICES").ok())
    }

    fn of(library: &OsStr, visible: Option<String>) -> Result<Self, String> {
        let nvml = Nvml::builder().lib_path(library).init();
        let nvml = nvml.map_err(|error| {
            format!("it is not known which GPUs are idle ({LIBRARY}: {error}); name one with --background=N")
        })?;
        Ok(Self { nvml, visible })
    }

    /// All that are idle of those that CUDA sees, but for the one that a program takes which does not choose.
    ///
    /// # Errors
    /// A clause that says why nothing can be known.
    pub fn find(&self, wanted: &TunedGpu) -> Result<Vec<IdleGpu<'_>>, String> {
        let failed = |error| format!("it is not known which GPUs are idle: {error}");
        let count = self.nvml.device_count().map_err(failed)?;
        let gpus = (0..count).filter_map(|index| {
            let device = self.nvml.device_by_index(index).ok()?;
            let uuid = device.uuid().ok()?;
            Some((index, IdleGpu { device, uuid }))
        });
        let may_be_used = |(index, gpu): &(u32, IdleGpu<'_>)| {
            self.is_spare(*index, &gpu.uuid) && is_like(&gpu.device, wanted) && gpu.is_idle()
        };
        Ok(gpus.filter(may_be_used).map(|(_, gpu)| gpu).collect())
    }

    /// Whether CUDA sees a GPU here, and another one before it.
    fn is_spare(&self, index: u32, uuid: &str) -> bool {
        match &self.visible {
            None => index > 0,
            Some(visible) => {
                let mut names = visible.split(',').map(str::trim);
                names.position(|name| name == index.to_string() || (!name.is_empty() && uuid.starts_with(name)))
                    > Some(0)
            }
        }
    }
}

fn is_like(device: &Device<'_>, wanted: &TunedGpu) -> bool {
    let arch = device.cuda_compute_capability().map(|it| format!("sm_{}{}", it.major, it.minor));
    let name = || device.name().unwrap_or_default();
    arch.is_ok_and(|arch| arch == wanted.arch) && (wanted.name.is_empty() || name() == wanted.name)
}

impl IdleGpu<'_> {
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Whether nobody has it, or makes it work. What is not told counts as work.
    pub fn is_idle(&self) -> bool {
        self.processes().is_some_and(|found| found.is_empty())
            && self.device.utilization_rates().is_ok_and(|rates| rates.gpu == 0)
    }

    /// Whether a process has it that is neither this one nor started by it. What is not told counts as one.
    pub fn has_others_than(&self, process: u32) -> bool {
        self.processes().is_none_or(|found| found.into_iter().any(|pid| !descends_from(pid, process)))
    }

    fn processes(&self) -> Option<Vec<u32>> {
        let compute = self.device.running_compute_processes().ok()?;
        let graphics = self.device.running_graphics_processes().ok()?;
        Some(compute.into_iter().chain(graphics).map(|process| process.pid).collect())
    }
}

/// Whether a process is `ancestor`, or was started by it; one that is gone by now is nobody's.
fn descends_from(process: u32, ancestor: u32) -> bool {
    const DEEP: usize = 32;
    let parent = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it, in parentheses, may have anything in it.
        text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let is_gone = !Path::new(&format!("/proc/{process}")).exists();
    is_gone || std::iter::successors(Some(process), parent).take(DEEP).any(|pid| pid == ancestor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A library with NVML's names and types: five GPUs. A process is on the second one, another one works, and the
    /// fourth is of another kind.
    const STAND_IN: &str = r#"
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        int nvmlInit_v2(void) { return 0; }
        int nvmlShutdown(void) { return 0; }
        int nvmlDeviceGetCount_v2(unsigned *count) { *count = 5; return 0; }
        int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(index + 1L); return 0; }
        static long number(void *device) { return (long)device - 1; }
        int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
            snprintf(uuid, length, "GPU-%ld", number(device));
            return 0;
        }
        int nvmlDeviceGetName(void *device, char *name, unsigned length) {
            snprintf(name, length, number(device) == 3 ? "NVIDIA H100" : "NVIDIA H200");
            return 0;
        }
        int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
            *major = 9, *minor = 0;
            return 0;
        }
        struct info { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
        int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct info *infos) {
            unsigned found = number(device) == 1, room = *count;
            *count = found;
            if (room < found)
                return 7;
            if (found) {
                memset(infos, 0, sizeof *infos);
                infos->pid = getpid();
            }
            return 0;
        }
        int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct info *infos) {
            *count = 0;
            return 0;
        }
        int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
            rates[0] = number(device) == 2 ? 40 : 0;
            rates[1] = 0;
            return 0;
        }
    "#;

    #[test]
    fn idle_gpus_are_like_the_recorded_one_and_not_the_programs() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("nvml.c"), folder.path().join("libnvidia-ml.so.1"));
        std::fs::write(&source, STAND_IN).unwrap();
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
        assert!(compiled.success());
        let found = |visible: Option<&str>, arch: &str, name: &str| {
            let gpus = IdleGpus::of(library.as_os_str(), visible.map(str::to_owned)).expect("a library of ours");
            let wanted = TunedGpu { arch: arch.into(), name: name.into() };
            let found = gpus.find(&wanted).unwrap();
            found.iter().map(|gpu| gpu.uuid().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(None, "sm_90", "NVIDIA H200"), ["GPU-4"], "the first is the program's");
        assert_eq!(found(Some("4,0"), "sm_90", "NVIDIA H200"), ["GPU-0"]);
        assert_eq!(found(Some("GPU-4, 3,GPU-0"), "sm_90", ""), ["GPU-0", "GPU-3"]);
        for visible in ["GPU-4", "0", ""] {
            assert!(found(Some(visible), "sm_90", "").is_empty(), "CUDA sees no other GPU with {visible:?}");
        }
        assert!(found(None, "sm_80", "").is_empty());

        let gpus = IdleGpus::of(library.as_os_str(), None).unwrap();
        let busy = gpus.nvml.device_by_index(1).unwrap();
        let busy = IdleGpu { uuid: busy.uuid().unwrap(), device: busy };
        let own = std::process::id();
        assert!(!busy.is_idle() && !busy.has_others_than(own));
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(busy.has_others_than(other.id()));
        assert!(descends_from(other.id(), own) && !descends_from(own, other.id()));
        other.kill().unwrap();
        other.wait().unwrap();
        let missing = IdleGpus::of(folder.path().join("none.so").as_os_str(), None).err().unwrap();
        assert!(missing.contains("--background=N"), "{missing}");
    }
}
