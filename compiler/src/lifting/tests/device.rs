//! Random programs on a GPU: lifted code compared with the driver's own code for the same PTX.
//!
//! They need a GPU (`MNEME_TEST_DEVICE=cuda`). `MNEME_LIFT_PROGRAMS` sets the number of programs.

use std::ffi::{CStr, c_void};

use libloading::{Library, Symbol};
use mneme_abi::cuda::driver::pointers;
use mneme_abi::cuda::status::Status;
use mneme_builds::Target;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;

use super::HEADER;
use super::random::{Program, Random, State};
use crate::{BuildRequest, InputCode, build};

/// The functions of CUDA's driver that the test needs.
pub struct Driver(Library);

/// Calls a function of the driver, which has to succeed.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // The function has its declared type. Buffers have the given lengths and outlive the call.
        let function: Symbol<'_, pointers::$name> =
            $driver.0.get(stringify!($name).as_bytes()).expect(stringify!($name));
        assert_eq!(function($($argument),*), Status::SUCCESS, stringify!($name));
    }};
}

impl Driver {
    pub fn open() -> Self {
        // SAFETY: the driver's library, whose constructors may run.
        let driver = Self(unsafe { Library::new("libcuda.so.1") }.expect("CUDA's driver"));
        let (mut context, mut device) = (std::ptr::null_mut(), 0);
        // SAFETY: each function writes one value, which outlives the call.
        unsafe {
            call!(driver, cuInit(0));
            call!(driver, cuDeviceGet(&mut device, 0));
            call!(driver, cuDevicePrimaryCtxRetain(&mut context, device));
            call!(driver, cuCtxSetCurrent(context));
        }
        driver
    }

    pub fn architecture(&self) -> String {
        let of = |attribute| {
            let mut value = 0;
            // SAFETY: one number is written.
            unsafe { call!(self, cuDeviceGetAttribute(&mut value, attribute, 0)) };
            value
        };
        format!("sm_{}{}", of(75), of(76))
    }

    /// The output of the kernel `k` of an image for the input.
    fn run(&self, image: &[u8], input: &[u64], threads: u32) -> Vec<u64> {
        self.try_run(image, c"k", input, 1, threads).unwrap_or_else(|status| panic!("{status:?}"))
    }

    /// The output of a kernel of an image, as long as the input.
    ///
    /// # Errors
    /// The driver's status if it does not take the image.
    pub fn try_run(
        &self,
        image: &[u8],
        kernel: &CStr,
        input: &[u64],
        blocks: u32,
        threads: u32,
    ) -> Result<Vec<u64>, Status> {
        // Text ends with a zero.
        let image = [image, b"\0"].concat();
        let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
        let bytes = size_of_val(input);
        let mut places = [0u64; 2];
        let mut output = vec![0u64; input.len()];
        // SAFETY: buffers have the given lengths and outlive the calls. The kernel takes two addresses.
        unsafe {
            let load: Symbol<'_, pointers::cuModuleLoadData> =
                self.0.get("cuModuleLoadData").expect("cuModuleLoadData");
            match load(&mut module, image.as_ptr().cast()) {
                Status::SUCCESS => {}
                status => return Err(status),
            }
            call!(self, cuModuleGetFunction(&mut function, module, kernel.as_ptr()));
            for place in &mut places {
                call!(self, cuMemAlloc_v2(place, bytes));
            }
            call!(self, cuMemcpyHtoD_v2(places[0], input.as_ptr().cast(), bytes));
            let mut parameters: [*mut c_void; 2] = [(&raw mut places[0]).cast(), (&raw mut places[1]).cast()];
            let (parameters, nothing) = (parameters.as_mut_ptr(), std::ptr::null_mut());
            let stream = std::ptr::null_mut();
            call!(self, cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nothing));
            call!(self, cuMemcpyDtoH_v2(output.as_mut_ptr().cast(), places[1], bytes));
            for place in places {
                call!(self, cuMemFree_v2(place));
            }
            call!(self, cuModuleUnload(module));
        }
        Ok(output)
    }
}

#[test]
fn lifted_code_does_what_the_drivers_own_does() {
    const THREADS: u32 = 256;
    if std::env::var("MNEME_TEST_DEVICE").as_deref() != Ok("cuda") {
        eprintln!("random programs on a GPU: not run");
        return;
    }
    let programs = std::env::var("MNEME_LIFT_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    let driver = Driver::open();
    let target = Target::Nvptx { arch: driver.architecture() };
    let mut random = Random(7);
    let (mut cases, mut wrong) = (0u64, Vec::new());
    for number in 0..programs {
        let program = Program::of_everything(&mut random, 60);
        let text = format!("{HEADER}.visible .entry k(.param .u64 in, .param .u64 out) {{\n{}}}\n", program.text());
        let input: Vec<u64> = (0..THREADS).flat_map(|_| State::random(&mut random).raw()).collect();
        let row = input.len() / THREADS as usize;
        let wanted = driver.run(text.as_bytes(), &input, THREADS);
        for passes in ["", "default<O1>", "default<O2>", "default<O3>"] {
            let mut configuration = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(THREADS, 1, 1), 0);
            (configuration.lift, configuration.passes) = (true, passes.into());
            let request = BuildRequest::new(InputCode::Ptx(&text), "k", &target, &configuration);
            let artifact = build(&request).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert!(artifact.lifted);
            let found = driver.run(&artifact.image, &input, THREADS);
            let rows = |memory: &[u64]| memory.chunks(row).map(|row| State::of(row).bytes()).collect::<Vec<_>>();
            for (thread, (wanted, found)) in rows(&wanted).into_iter().zip(rows(&found)).enumerate() {
                cases += 1;
                if wanted != found {
                    wrong.push((number, passes, thread, wanted, found, text.clone()));
                }
            }
        }
    }
    eprintln!("{cases} runs of threads, {} differ", wrong.len());
    if let Some((number, passes, thread, wanted, found, text)) = wrong.first() {
        panic!("program {number}, '{passes}', thread {thread}\nwanted {wanted:?}\nfound  {found:?}\n{text}");
    }
}
