//! Random programs on a GPU: lifted code beside what the driver makes of the same PTX.
//!
//! They need one (`MNEME_TEST_DEVICE=cuda`); `MNEME_LIFT_PROGRAMS` says how many.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use libloading::{Library, Symbol};
use mneme_builds::Target;
use mneme_core::configuration::Configuration;
use mneme_core::launch::Dim3;

use super::HEADER;
use super::random::{Program, Random, State};
use crate::{BuildRequest, InputCode, build};

type Handle = *mut c_void;

/// As much of CUDA's driver as the test needs.
struct Driver(Library);

impl Driver {
    fn open() -> Self {
        // SAFETY: the driver's library; its constructors are its own.
        let driver = Self(unsafe { Library::new("libcuda.so.1") }.expect("CUDA's driver"));
        let mut context: Handle = std::ptr::null_mut();
        let mut device: c_int = 0;
        // SAFETY: the functions have these types (cuda.h); the results outlive the calls.
        unsafe {
            driver.call::<unsafe extern "C" fn(c_uint) -> c_int>("cuInit", |call| call(0));
            driver.call::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>("cuDeviceGet", |call| call(&mut device, 0));
            driver.call::<unsafe extern "C" fn(*mut Handle, c_int) -> c_int>("cuDevicePrimaryCtxRetain", |call| {
                call(&mut context, device)
            });
            driver.call::<unsafe extern "C" fn(Handle) -> c_int>("cuCtxSetCurrent", |call| call(context));
        }
        driver
    }

    /// # Safety
    /// `F` is the function's type, and `run` calls it as it wants to be called.
    unsafe fn call<F>(&self, name: &str, run: impl FnOnce(&Symbol<'_, F>) -> c_int) {
        // SAFETY: by the contract above.
        let symbol: Symbol<'_, F> = unsafe { self.0.get(name.as_bytes()) }.expect(name);
        assert_eq!(run(&symbol), 0, "{name}");
    }

    fn architecture(&self) -> String {
        let of = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: cuDeviceGetAttribute writes one number.
            unsafe {
                self.call::<unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int>("cuDeviceGetAttribute", |call| {
                    call(&mut value, attribute, 0)
                });
            }
            value
        };
        format!("sm_{}{}", of(75), of(76))
    }

    /// What the kernel `k` of an image makes of the input.
    fn run(&self, image: &[u8], input: &[u64], threads: u32) -> Vec<u64> {
        let mut image = image.to_vec();
        image.push(0);
        let name = CString::new("k").expect("no NUL");
        let (mut module, mut function): (Handle, Handle) = (std::ptr::null_mut(), std::ptr::null_mut());
        let bytes = size_of_val(input);
        let mut places = [0u64; 2];
        let mut output = vec![0u64; input.len()];
        // SAFETY: the functions have these types (cuda.h); buffers are as long as is said and outlive the calls.
        unsafe {
            self.call::<unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int>("cuModuleLoadData", |call| {
                call(&mut module, image.as_ptr().cast())
            });
            self.call::<unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int>(
                "cuModuleGetFunction",
                |call| call(&mut function, module, name.as_ptr()),
            );
            for place in &mut places {
                self.call::<unsafe extern "C" fn(*mut u64, usize) -> c_int>("cuMemAlloc_v2", |call| call(place, bytes));
            }
            self.call::<unsafe extern "C" fn(u64, *const c_void, usize) -> c_int>("cuMemcpyHtoD_v2", |call| {
                call(places[0], input.as_ptr().cast(), bytes)
            });
            let mut parameters: [*mut c_void; 2] = [(&raw mut places[0]).cast(), (&raw mut places[1]).cast()];
            type Launch = unsafe extern "C" fn(
                Handle,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                Handle,
                *mut *mut c_void,
                *mut *mut c_void,
            ) -> c_int;
            self.call::<Launch>("cuLaunchKernel", |call| {
                let nothing = std::ptr::null_mut();
                call(function, 1, 1, 1, threads, 1, 1, 0, nothing, parameters.as_mut_ptr(), std::ptr::null_mut())
            });
            self.call::<unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int>("cuMemcpyDtoH_v2", |call| {
                call(output.as_mut_ptr().cast(), places[1], bytes)
            });
            for place in places {
                self.call::<unsafe extern "C" fn(u64) -> c_int>("cuMemFree_v2", |call| call(place));
            }
            self.call::<unsafe extern "C" fn(Handle) -> c_int>("cuModuleUnload", |call| call(module));
        }
        output
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
