//! Tests of the driver through its exported functions, as a C program calls them.

use std::ffi::{CString, c_char, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use mneme_abi::cuda::structures::{
    AccessDescription, AllocationProperties, ArrayDescription, Copy3d, CopySide, Fill, Resource, TextureDescription,
    array_flag, array_format, memory_type, resource_kind, texture_flag,
};
use mneme_abi::cuda::types::CUmemLocation;

use super::exports as cu;
use crate::abi::{CStringArgument, Give, In, Out};
use crate::status::Status;
use crate::testing::{self, kernel};

/// Calls an exported function, which must succeed.
macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the arguments have the types of the function's declaration.
        assert_eq!(unsafe { cu::$function($(Give::give($argument)),*) }, Status::SUCCESS, stringify!($function))
    };
}

macro_rules! status {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: as above.
        unsafe { cu::$function($(Give::give($argument)),*) }
    };
}

/// Makes a context current on the test's thread.
fn enter() {
    static INITIALISE: Once = Once::new();
    INITIALISE.call_once(|| ok!(cuInit(0)));
    let mut context = 0usize;
    ok!(cuDevicePrimaryCtxRetain(Out::to(&mut context), 0));
    ok!(cuCtxSetCurrent(context));
}

fn number<T: Default>(read: impl FnOnce(Out<T>)) -> T {
    let mut value = T::default();
    read(Out::to(&mut value));
    value
}

#[test]
fn memory_of_a_pool_is_known_by_it_and_shared_with_it() {
    enter();
    let attribute = |address, attribute: u32| {
        number(|out: Out<u64>| ok!(cuPointerGetAttribute(Out::<u8>::to_place(out.address()), attribute, address)))
    };
    // CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
    const POOL: u32 = 17;
    let pool = number::<usize>(|out| ok!(cuMemPoolCreate(out, In::from(&[1, 0, 1, 0]))));
    let pooled = number::<u64>(|out| ok!(cuMemAllocFromPoolAsync(out, 100, pool, 0usize)));
    assert_eq!(attribute(pooled, POOL), pool as u64);
    let default = number::<usize>(|out| ok!(cuDeviceGetMemPool(out, 0)));
    ok!(cuDeviceSetMemPool(0, pool));
    assert_eq!(number::<usize>(|out| ok!(cuDeviceGetMemPool(out, 0))), pool);
    let current = number::<u64>(|out| ok!(cuMemAllocAsync(out, 100, 0usize)));
    assert_eq!(attribute(current, POOL), pool as u64);
    ok!(cuDeviceSetMemPool(0, default));
    let plain = number::<u64>(|out| ok!(cuMemAlloc_v2(out, 100)));
    assert_eq!(attribute(plain, POOL), 0);
    let refused = AccessDescription { location: CUmemLocation::device(0), flags: 0 };
    assert_eq!(
        status!(cuMemPoolSetAccess(pool, In::from(&refused), 1)),
        Status::INVALID_VALUE,
        "a device keeps its own pool"
    );
    assert_eq!(number::<u32>(|out| ok!(cuMemPoolGetAccess(out, pool, In::from(&CUmemLocation::device(0))))), 3u32);
    // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    let threshold = || number::<u64>(|out| ok!(cuMemPoolGetAttribute(pool, 4, place(out) as usize)));
    assert_eq!(threshold(), 0);
    ok!(cuMemPoolSetAttribute(pool, 4, std::ptr::from_ref(&u64::MAX).cast_mut()));
    assert_eq!(threshold(), u64::MAX);
    [pooled, current, plain].into_iter().for_each(|address| ok!(cuMemFree_v2(address)));
    ok!(cuMemPoolDestroy(pool));
}

fn allow(address: u64, size: usize, flags: u32) {
    let access = AccessDescription { location: CUmemLocation::device(0), flags };
    ok!(cuMemSetAccess(address, size, In::from(&access), 1));
}

const SIZE: usize = 4 << 20;

#[test]
fn memory_is_mapped_where_it_was_wanted_and_can_be_seen_twice() {
    enter();
    let wanted = 0x1100_0000_0000;
    let address = number::<u64>(|out| ok!(cuMemAddressReserve(out, 4 * SIZE, 0, wanted, 0)));
    assert_eq!(address, wanted);
    let elsewhere = number::<u64>(|out| ok!(cuMemAddressReserve(out, SIZE, 0, wanted, 0)));
    assert!(elsewhere != 0 && !(wanted..wanted + 4 * SIZE as u64).contains(&elsewhere));
    let handle = number::<u64>(|out| ok!(cuMemCreate(out, SIZE, In::from(&AllocationProperties::pinned(0)), 0)));
    ok!(cuMemMap(address, SIZE, 0, handle, 0));
    ok!(cuMemMap(address + SIZE as u64, SIZE, 0, handle, 0));
    assert_eq!(status!(cuMemMap(address, SIZE, 0, handle, 0)), Status::INVALID_VALUE);
    assert_eq!(status!(cuMemMap(address + 4 * SIZE as u64, SIZE, 0, handle, 0)), Status::INVALID_VALUE);
    assert_eq!(status!(cuMemsetD32_v2(address + 4096, 77, 10)), Status::INVALID_VALUE, "no device has access yet");
    allow(address, 2 * SIZE, 3);
    ok!(cuMemsetD32_v2(address + 4096, 77, 10));
    assert_eq!(number(|out: Out<u32>| ok!(cuMemcpyDtoH_v2(place(out), address + SIZE as u64 + 4100, 4))), 77);
    // A copy may cross from one mapping into the next.
    ok!(cuMemsetD8_v2(address + SIZE as u64 - 8, 1, 16));
    assert_eq!(status!(cuMemsetD8_v2(address + 2 * SIZE as u64 - 8, 1, 16)), Status::INVALID_VALUE);
    assert_eq!(status!(cuMemAddressFree(address, 4 * SIZE)), Status::INVALID_VALUE);
    allow(address, SIZE, 0);
    assert_eq!(status!(cuMemsetD8_v2(address + SIZE as u64 - 8, 1, 16)), Status::INVALID_VALUE, "access was removed");
    ok!(cuMemsetD8_v2(address + SIZE as u64, 1, 16));
    // The handle keeps the contents alive, not the mapping.
    ok!(cuMemUnmap(address, 2 * SIZE));
    ok!(cuMemMap(elsewhere, SIZE, 0, handle, 0));
    ok!(cuMemRelease(handle));
    allow(elsewhere, SIZE, 1);
    assert_eq!(number(|out: Out<u32>| ok!(cuMemcpyDtoH_v2(place(out), elsewhere + 4096, 4))), 77);
    assert_eq!(status!(cuMemsetD8_v2(elsewhere, 1, 16)), Status::INVALID_VALUE, "it is read-only");
    assert_eq!(status!(cuMemcpyDtoD_v2(elsewhere, elsewhere + 64, 16)), Status::INVALID_VALUE);
    assert_eq!(number::<u64>(|out| ok!(cuMemGetAccess(out, In::from(&CUmemLocation::device(0)), elsewhere))), 1);
    ok!(cuMemUnmap(elsewhere, SIZE));
    ok!(cuMemAddressFree(elsewhere, SIZE));
    ok!(cuMemAddressFree(address, 4 * SIZE));
}

#[test]
fn a_number_that_is_the_applications_by_now_is_left_alone() {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    enter();
    // No other test has memory of this size.
    let size = 7 * SIZE;
    let handle = number::<u64>(|out| ok!(cuMemCreate(out, size, In::from(&AllocationProperties::pinned(0)), 0)));
    let length = |entry: &std::fs::DirEntry| std::fs::metadata(entry.path()).ok().map(|metadata| metadata.len());
    let mut open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let memory = open.find(|entry| length(entry) == Some(size as u64)).expect("the memory is a file");
    let descriptor: i32 = memory.file_name().to_str().unwrap().parse().unwrap();
    let theirs = tempfile::tempfile().unwrap();
    // SAFETY: both are open. An application that closes all descriptors and opens files does the same.
    assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), descriptor) }, descriptor);
    let address = number::<u64>(|out| ok!(cuMemAddressReserve(out, size, 0, 0, 0)));
    assert_eq!(status!(cuMemMap(address, size, 0, handle, 0)), Status::OPERATING_SYSTEM);
    ok!(cuMemRelease(handle));
    ok!(cuMemAddressFree(address, size));
    let there = std::fs::metadata(format!("/proc/self/fd/{descriptor}")).expect("the descriptor is open");
    assert_eq!(there.ino(), theirs.metadata().unwrap().ino());
    // SAFETY: this test has opened it.
    unsafe { libc::close(descriptor) };
}

/// The address of an output, for functions that take it as a number.
fn place<T>(out: Out<T>) -> u64 {
    out.address() as u64
}

#[test]
fn rows_that_overlap_are_not_filled() {
    enter();
    let address = number::<u64>(|out| ok!(cuMemAlloc_v2(out, 64)));
    assert_eq!(status!(cuMemsetD2D8_v2(address, 4, 0, 8, 2)), Status::INVALID_VALUE);
    assert_eq!(status!(cuMemsetD2D8_v2(address, 0, 0, 1, 1 << 40)), Status::INVALID_VALUE);
    assert_eq!(status!(cuMemsetD2D8_v2(address, 16, 0, 8, 5)), Status::INVALID_VALUE);
    ok!(cuMemsetD2D8_v2(address, 16, 0, 8, 4));
    ok!(cuMemsetD2D8_v2(address, 0, 0, 64, 1));
    ok!(cuMemFree_v2(address));
}

#[test]
fn only_memory_of_the_host_is_registered_and_only_once() {
    enter();
    let memory = vec![0u8; 1 << 16];
    let start = (memory.as_ptr() as u64).next_multiple_of(4096);
    ok!(cuMemHostRegister_v2(start, 8192, 0));
    for (address, bytes) in [(start, 4096usize), (start - 4096, 8192), (start + 4096, 8192)] {
        let status = status!(cuMemHostRegister_v2(address, bytes, 0));
        assert_eq!(status, Status::HOST_MEMORY_ALREADY_REGISTERED, "{bytes} bytes at {address:x}");
    }
    for (address, bytes) in [(start + 8192, usize::MAX), (4096, 4096), (u64::MAX - 4095, 4096)] {
        assert_eq!(status!(cuMemHostRegister_v2(address, bytes, 0)), Status::INVALID_VALUE, "{bytes} at {address:x}");
    }
    ok!(cuMemHostUnregister(start));
}

#[test]
fn allocations_are_known_by_their_bounds() {
    enter();
    for bytes in [1usize, 1000, 3 << 20] {
        let address = number::<u64>(|out| ok!(cuMemAlloc_v2(out, bytes)));
        assert_eq!(address % 512, 0);
        let (mut base, mut size) = (0, 0);
        ok!(cuMemGetAddressRange_v2(Out::to(&mut base), Out::to(&mut size), address + bytes as u64 - 1));
        assert_eq!((base, size), (address, bytes));
        ok!(cuMemsetD8_v2(address, 9, bytes));
        assert_eq!(status!(cuMemsetD8_v2(address, 9, bytes + 1)), Status::INVALID_VALUE);
        ok!(cuMemFree_v2(address));
        assert_eq!(status!(cuMemFree_v2(address)), Status::INVALID_VALUE);
    }
    assert_eq!(status!(cuMemAlloc_v2(Out::to(&mut 0), 1 << 60)), Status::OUT_OF_MEMORY);
}

#[test]
fn memory_belongs_to_the_context_that_it_was_allocated_in() {
    enter();
    let (own, address) =
        (number::<usize>(|out| ok!(cuCtxGetCurrent(out))), number::<u64>(|out| ok!(cuMemAlloc_v2(out, 64))));
    let other = number::<usize>(|out| ok!(cuCtxCreate_v2(out, 0, 0)));
    let (mut owner, context) = (0usize, 1);
    ok!(cuPointerGetAttribute(Out::<u8>::to_place((&raw mut owner).expose_provenance()), context, address));
    assert_eq!(owner, own);
    ok!(cuCtxDestroy_v2(other));
    ok!(cuMemFree_v2(address));
}

#[test]
fn a_code_object_is_a_module_with_kernels_and_variables() {
    enter();
    let source = r#"u32 factor = 3; struct arguments { u32 *to; u64 n; };
        void scale(const struct arguments *a) { const struct context *c = __mneme_cpu_thread(); u64 i = c->ctaid[0] * c->ntid[0] + c->tid[0]; if (i < a->n) a->to[i] = factor * i; }"#;
    let variable = mneme_image::cpu_object::CpuVariable {
        name: "factor".into(),
        symbol: "factor".into(),
        size: 4,
        constant: false,
    };
    let object = testing::object(source, vec![kernel("scale", 2, false)], vec![variable]);
    let module = number::<usize>(|out| ok!(cuModuleLoadData(out, object.as_ptr().cast::<c_void>())));
    let name = CString::new("scale").unwrap();
    let function = number::<usize>(|out| ok!(cuModuleGetFunction(out, module, CStringArgument(name.as_ptr()))));
    assert_eq!(
        status!(cuModuleGetFunction(Out::to(&mut 0), module, CStringArgument(c"absent".as_ptr()))),
        Status::NOT_FOUND
    );
    let (mut offset, mut size) = (0, 0);
    ok!(cuFuncGetParamInfo(function, 1, Out::to(&mut offset), Out::to(&mut size)));
    assert_eq!((offset, size), (8, 8));
    assert_eq!(
        status!(cuFuncGetParamInfo(function, 2, Out::to(&mut offset), Out::to(&mut size))),
        Status::INVALID_VALUE
    );

    let array = number::<u64>(|out| ok!(cuMemAlloc_v2(out, 4000)));
    let n = 1000u64;
    let arguments: [*const c_void; 2] = [(&raw const array).cast(), (&raw const n).cast()];
    ok!(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, 0usize, arguments.as_ptr() as usize, 0usize));
    let element = |index: u64| number(|out: Out<u32>| ok!(cuMemcpyDtoH_v2(place(out), array + 4 * index, 4)));
    assert_eq!((element(1), element(999)), (3, 2997));

    // The same with a parameter buffer, after a change to the variable.
    let (mut address, mut bytes) = (0, 0);
    ok!(cuModuleGetGlobal_v2(Out::to(&mut address), Out::to(&mut bytes), module, CStringArgument(c"factor".as_ptr())));
    assert_eq!(bytes, 4);
    ok!(cuMemsetD32_v2(address, 5, 1));
    let (buffer, length) = ([array, n], 16usize);
    let extra: [usize; 5] = [1, buffer.as_ptr() as usize, 2, &raw const length as usize, 0];
    ok!(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, 0usize, 0usize, extra.as_ptr() as usize));
    assert_eq!((element(1), element(999)), (5, 4995));

    assert_eq!(
        status!(cuLaunchKernel(function, 8, 1, 1, 2048, 1, 1, 0, 0usize, arguments.as_ptr() as usize, 0usize)),
        Status::INVALID_VALUE
    );
    assert_eq!(
        status!(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, 0usize, arguments.as_ptr() as usize, 0usize)),
        Status::INVALID_VALUE
    );
    ok!(cuMemFree_v2(array));
    ok!(cuModuleUnload(module));
    assert_eq!(
        status!(cuFuncGetParamInfo(function, 1, Out::to(&mut offset), Out::to(&mut size))),
        Status::INVALID_HANDLE
    );
}

fn format(width: usize, height: usize, depth: usize, flags: u32) -> ArrayDescription {
    ArrayDescription { width, height, depth, format: array_format::UNSIGNED_16, channels: 2, flags }
}

fn over(array: usize) -> Resource {
    let mut words = [0; 16];
    words[0] = array as u64;
    Resource { kind: resource_kind::ARRAY, words, flags: 0 }
}

const POINT: TextureDescription = TextureDescription {
    address_modes: [1; 3],
    filter: 0,
    flags: texture_flag::READ_AS_INTEGER,
    anisotropy: 0,
    mipmap_filter: 0,
    mipmap_bias: 0.0,
    least_level: 0.0,
    greatest_level: 0.0,
    border: [0.0; 4],
    reserved: [0; 12],
};

fn nothing() -> In<[u32; 28]> {
    In::of_place(0)
}

/// Memory that a kernel allocates outlasts its launch and its module, but not the context.
#[test]
fn the_heap_of_kernels_lasts_as_long_as_the_context() {
    enter();
    let own = number::<usize>(|out| ok!(cuCtxGetCurrent(out)));
    let source = r#"
        void take(u64 *p) { u64 **out = (u64 **)p[0]; *out = __mneme_cpu_malloc(p[1]); if (*out) **out = 7; }
        void look(u64 *p) { u64 *out = (u64 *)p[0]; u64 *memory = (u64 *)p[1]; *out = *memory; __mneme_cpu_free(memory); }"#;
    let object = testing::object(source, vec![kernel("take", 2, false), kernel("look", 2, false)], vec![]);
    let run = |name: &std::ffi::CStr, argument: u64| {
        let module = number::<usize>(|out| ok!(cuModuleLoadData(out, object.as_ptr() as usize)));
        let function = number::<usize>(|out| ok!(cuModuleGetFunction(out, module, CStringArgument(name.as_ptr()))));
        let (mut result, argument) = (1u64, argument);
        let out = &raw mut result as u64;
        let arguments: [*const c_void; 2] = [(&raw const out).cast(), (&raw const argument).cast()];
        ok!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0usize, arguments.as_ptr() as usize, 0usize));
        ok!(cuCtxSynchronize());
        ok!(cuModuleUnload(module));
        result
    };
    // CU_LIMIT_MALLOC_HEAP_SIZE
    const LIMIT: u32 = 2;
    let enter_new = || number::<usize>(|out| ok!(cuCtxCreate_v2(out, 0, 0)));
    enter_new();
    ok!(cuCtxSetLimit(LIMIT, 1usize << 20));
    let memory = run(c"take", 1 << 19);
    assert_ne!(memory, 0);
    assert_eq!(run(c"take", 1 << 20), 0, "there is half of it left");
    assert_eq!(status!(cuCtxSetLimit(LIMIT, 2usize << 20)), Status::INVALID_VALUE);
    assert_eq!(run(c"look", memory), 7);
    let whole = run(c"take", 1 << 20);
    assert_eq!(whole, memory);
    enter_new();
    assert_ne!(run(c"take", 1 << 20), 0, "another context has another heap");
    for _ in 0..2 {
        let current = number::<usize>(|out| ok!(cuCtxGetCurrent(out)));
        ok!(cuCtxDestroy_v2(current));
    }
    ok!(cuCtxSetCurrent(own));
}

#[test]
fn arrays_are_copied_to_and_from_within_their_bounds() {
    enter();
    let array = number::<usize>(|out| ok!(cuArray3DCreate_v2(out, In::from(&format(5, 3, 2, 0)))));
    let slices: Vec<u32> = (0..30).collect();
    let side = |kind, host: u64, x, y, z| CopySide {
        x,
        y,
        z,
        level: 0,
        kind,
        host,
        device: 0,
        array: array as u64,
        reserved: 0,
        pitch: 20,
        rows: 3,
    };
    let to_array = |host: &[u32], [x, y, z]: [usize; 3], [width, height, depth]: [usize; 3]| {
        let from = side(memory_type::HOST, host.as_ptr() as u64, 0, 0, 0);
        let copy = Copy3d { from, to: side(memory_type::ARRAY, 0, x, y, z), width, height, depth };
        status!(cuMemcpy3D_v2(In::from(&copy)))
    };
    assert_eq!(to_array(&slices, [0; 3], [20, 3, 2]), Status::SUCCESS);
    for (at, extent) in
        [([4, 0, 0], [20, 3, 2]), ([0, 1, 0], [20, 3, 2]), ([0, 0, 1], [20, 3, 2]), ([21, 0, 0], [0, 1, 1])]
    {
        let expected = if extent[0] == 0 { Status::SUCCESS } else { Status::INVALID_VALUE };
        assert_eq!(to_array(&slices, at, extent), expected, "{at:?}");
    }
    // Three words of the middle row of the second slice.
    let mut back = [0u32; 3];
    let to = side(memory_type::HOST, back.as_mut_ptr() as u64, 0, 0, 0);
    let copy = Copy3d { from: side(memory_type::ARRAY, 0, 4, 1, 1), to, width: 12, height: 1, depth: 1 };
    ok!(cuMemcpy3D_v2(In::from(&copy)));
    assert_eq!(back, [21, 22, 23]);

    let mut described = format(0, 0, 0, 9);
    ok!(cuArray3DGetDescriptor_v2(Out::to(&mut described), array));
    assert_eq!((described.width, described.depth, described.channels, described.flags), (5, 2, 2, 0));
    let line = number::<usize>(|out| ok!(cuArray3DCreate_v2(out, In::from(&format(5, 0, 0, 0)))));
    ok!(cuMemcpyHtoA_v2(line, 4usize, slices.as_ptr() as u64, 16usize));
    ok!(cuMemcpyAtoH_v2(back.as_mut_ptr() as u64, line, 0usize, 12usize));
    assert_eq!(back, [0, 0, 1], "an array begins with zeros");
    assert_eq!(status!(cuMemcpyHtoA_v2(line, 8usize, slices.as_ptr() as u64, 16usize)), Status::INVALID_VALUE);
    for impossible in
        [format(0, 1, 0, 0), format(4, 0, 4, 0), format(4, 4, 5, array_flag::CUBE), format(1 << 20, 0, 0, 0)]
    {
        let mut out = 0usize;
        assert_eq!(status!(cuArray3DCreate_v2(Out::to(&mut out), In::from(&impossible))), Status::INVALID_VALUE);
    }
    ok!(cuArrayDestroy(line));
    assert_eq!(status!(cuArrayDestroy(line)), Status::INVALID_HANDLE);
    ok!(cuArrayDestroy(array));
}

/// A texture object keeps its array alive.
#[test]
fn kernels_read_textures_by_their_handles() {
    enter();
    let source = r#"void __mneme_cpu_texture(u64, u32, u32 *); void __mneme_cpu_surface_store(u64, u32, u32 *);
        void read(u64 *p) { u32 at[8] = {0, 2, 2, 0}; __mneme_cpu_texture(p[0], 1, at); memcpy((void *)p[1], at, 16); }
        void store(u64 *p) { u32 at[8] = {0, 8, 2, 0, 77}; __mneme_cpu_surface_store(p[0], 1 | 4 << 8, at); }"#;
    let object = testing::object(source, vec![kernel("read", 2, false), kernel("store", 2, false)], vec![]);
    let module = number::<usize>(|out| ok!(cuModuleLoadData(out, object.as_ptr() as usize)));
    let function = |name: &std::ffi::CStr| {
        number::<usize>(|out| ok!(cuModuleGetFunction(out, module, CStringArgument(name.as_ptr()))))
    };
    let (read, store) = (function(c"read"), function(c"store"));
    let launch = |function: usize, handle: u64, out: u64| {
        let arguments: [*const c_void; 2] = [(&raw const handle).cast(), (&raw const out).cast()];
        ok!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0usize, arguments.as_ptr() as usize, 0usize));
    };
    let array = number::<usize>(|out| ok!(cuArray3DCreate_v2(out, In::from(&format(5, 3, 0, array_flag::SURFACE)))));
    let texture = number::<u64>(|out| ok!(cuTexObjectCreate(out, In::from(&over(array)), In::from(&POINT), nothing())));
    let surface = number::<u64>(|out| ok!(cuSurfObjectCreate(out, In::from(&over(array)))));
    let words = number::<u64>(|out| ok!(cuMemAlloc_v2(out, 16)));
    let got = || {
        launch(read, texture, words);
        let mut got = [9u32; 4];
        ok!(cuMemcpyDtoH_v2(got.as_mut_ptr() as u64, words, 16usize));
        got
    };
    assert_eq!(got(), [0; 4]);
    launch(store, surface, 0);
    assert_eq!(got(), [77, 0, 0, 0]);

    let mut found = over(0);
    ok!(cuTexObjectGetResourceDesc(Out::to(&mut found), texture));
    assert_eq!(found.words[0], array as u64);
    assert_eq!(status!(cuSurfObjectGetResourceDesc(Out::to(&mut found), texture)), Status::INVALID_VALUE);
    let plain = number::<usize>(|out| ok!(cuArray3DCreate_v2(out, In::from(&format(5, 3, 0, 0)))));
    let mut handle = 0u64;
    let mut refused = |resource: &Resource, what: &TextureDescription| {
        status!(cuTexObjectCreate(Out::to(&mut handle), In::from(resource), In::from(what), nothing()))
    };
    assert_eq!(refused(&over(array), &TextureDescription { filter: 1, ..POINT }), Status::INVALID_VALUE);
    assert_eq!(refused(&over(array), &TextureDescription { anisotropy: 16, ..POINT }), Status::NOT_SUPPORTED);
    assert_eq!(refused(&Resource { kind: 1, ..over(array) }, &POINT), Status::NOT_SUPPORTED);
    assert_eq!(refused(&over(1), &POINT), Status::INVALID_HANDLE);
    assert_eq!(status!(cuSurfObjectCreate(Out::to(&mut handle), In::from(&over(plain)))), Status::INVALID_VALUE);

    ok!(cuArrayDestroy(array));
    assert_eq!(got(), [77, 0, 0, 0]);
    ok!(cuTexObjectDestroy(texture));
    assert_eq!(status!(cuTexObjectDestroy(texture)), Status::INVALID_HANDLE);
    ok!(cuSurfObjectDestroy(surface));
}

#[test]
fn machine_code_for_a_gpu_is_refused() {
    enter();
    let text = CString::new(".version 8.0\n.target sm_90\n").unwrap();
    assert_eq!(status!(cuModuleLoadData(Out::to(&mut 0), text.as_ptr().cast::<c_void>())), Status::NO_BINARY_FOR_GPU);
}

#[test]
fn contexts_and_handles_are_checked() {
    std::thread::spawn(|| {
        ok!(cuInit(0));
        assert_eq!(number::<usize>(|out| ok!(cuCtxGetCurrent(out))), 0usize);
        assert_eq!(status!(cuMemAlloc_v2(Out::to(&mut 0), 16)), Status::INVALID_CONTEXT);
        let context = number::<usize>(|out| ok!(cuCtxCreate_v2(out, 0, 0)));
        assert_eq!(number::<usize>(|out| ok!(cuCtxGetCurrent(out))), context);
        assert_eq!(status!(cuStreamSynchronize(0xdead_beefusize)), Status::INVALID_HANDLE);
        assert_eq!(status!(cuEventRecord(context, 0usize)), Status::INVALID_HANDLE);
        ok!(cuCtxDestroy_v2(context));
        assert_eq!(status!(cuCtxSynchronize()), Status::INVALID_CONTEXT);
    })
    .join()
    .unwrap();
}

#[test]
fn events_measure_what_lies_between_them() {
    enter();
    let [start, end] = [(); 2].map(|()| number::<usize>(|out| ok!(cuEventCreate(out, 0))));
    assert_eq!(status!(cuEventElapsedTime(Out::to(&mut 0.0), start, end)), Status::INVALID_HANDLE);
    ok!(cuEventRecord(start, 0usize));
    std::thread::sleep(std::time::Duration::from_millis(20));
    ok!(cuEventRecord(end, 0usize));
    let milliseconds = number::<f32>(|out| ok!(cuEventElapsedTime_v2(out, start, end)));
    assert!((20.0..2000.0).contains(&milliseconds), "{milliseconds}");
}

#[test]
fn names_are_cut_to_their_buffer() {
    enter();
    let mut name = [1 as c_char; 8];
    ok!(cuDeviceGetName(Out::to(&mut name[0]), 6, 0));
    assert_eq!(name.map(|byte| byte as u8), *b"Mneme\0\x01\x01");
}

/// The kinds of a graph's nodes, as `CUgraphNodeType`.
fn kinds(graph: usize) -> Vec<u32> {
    let mut count = number::<usize>(|out| ok!(cuGraphGetNodes(graph, 0usize, out)));
    let mut nodes = vec![0usize; count];
    ok!(cuGraphGetNodes(graph, Out::to(&mut nodes[0]), Out::to(&mut count)));
    nodes.into_iter().map(|node| number::<u32>(|out| ok!(cuGraphNodeGetType(node, out)))).collect()
}

fn is_known(address: u64) -> bool {
    status!(cuMemGetAddressRange_v2(0usize, 0usize, address)) == Status::SUCCESS
}

#[test]
fn a_graph_cannot_be_launched_into_a_capture() {
    enter();
    let stream = number::<usize>(|out| ok!(cuStreamCreate(out, 1)));
    let graph = number::<usize>(|out| ok!(cuGraphCreate(out, 0)));
    let executable = number::<usize>(|out| ok!(cuGraphInstantiateWithFlags(out, graph, 0)));
    ok!(cuStreamBeginCapture_v2(stream, 0));
    assert_eq!(status!(cuGraphLaunch(executable, stream)), Status::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(status!(cuStreamEndCapture(stream, Out::to(&mut 0))), Status::STREAM_CAPTURE_INVALIDATED);
    ok!(cuGraphLaunch(executable, stream));
    ok!(cuGraphExecDestroy(executable));
    ok!(cuGraphDestroy(graph));
    ok!(cuStreamDestroy_v2(stream));
}

#[test]
fn a_captured_allocation_lives_while_its_graph_runs() {
    enter();
    let stream = number::<usize>(|out| ok!(cuStreamCreate(out, 1)));
    ok!(cuStreamBeginCapture_v2(stream, 0));
    let address = number::<u64>(|out| ok!(cuMemAllocAsync(out, 5000, stream)));
    ok!(cuMemsetD8Async(address, 7, 5000, stream));
    ok!(cuMemFreeAsync(address, stream));
    let graph = number::<usize>(|out| ok!(cuStreamEndCapture(stream, out)));
    assert_eq!(kinds(graph), [10, 2, 11]);
    assert_eq!(status!(cuGraphClone(Out::to(&mut 0), graph)), Status::NOT_SUPPORTED);
    assert_eq!(status!(cuMemsetD8_v2(address, 1, 1)), Status::INVALID_VALUE, "not allocated yet");
    let executable = number::<usize>(|out| ok!(cuGraphInstantiateWithFlags(out, graph, 0)));
    for _ in 0..2 {
        ok!(cuGraphLaunch(executable, stream));
        assert!(!is_known(address));
    }
    ok!(cuGraphExecDestroy(executable));
    ok!(cuGraphDestroy(graph));
    ok!(cuStreamDestroy_v2(stream));
}

#[test]
fn a_graph_is_captured_again() {
    enter();
    let stream = number::<usize>(|out| ok!(cuStreamCreate(out, 0)));
    let address = number::<u64>(|out| ok!(cuMemAlloc_v2(out, 4096)));
    ok!(cuStreamBeginCapture_v2(stream, 0));
    ok!(cuMemsetD32Async(address, 1, 1024, stream));
    let graph = number::<usize>(|out| ok!(cuStreamEndCapture(stream, out)));
    let again =
        || ok!(cuStreamBeginRecaptureToGraph(stream, 0, graph, std::ptr::null::<c_void>(), std::ptr::null::<c_void>()));
    again();
    assert_eq!(number::<u32>(|out| ok!(cuStreamIsCapturing(stream, out))), 1);
    ok!(cuMemsetD32Async(address, 2, 1024, stream));
    assert_eq!(number::<usize>(|out| ok!(cuStreamEndCapture(stream, out))), graph);
    let executable = number::<usize>(|out| ok!(cuGraphInstantiateWithFlags(out, graph, 0)));
    ok!(cuGraphLaunch(executable, stream));
    let mut word = 0u32;
    ok!(cuMemcpyDtoH_v2(&raw mut word as u64, address, 4));
    assert_eq!(word, 2, "the nodes have the new parameters");
    again();
    assert_eq!(
        status!(cuStreamEndCapture(stream, Out::to(&mut 0))),
        Status::GRAPH_EXEC_UPDATE_FAILURE,
        "another shape"
    );
    assert_eq!(number::<u32>(|out| ok!(cuStreamIsCapturing(stream, out))), 0);
    ok!(cuMemFree_v2(address));
}

#[test]
fn what_a_graph_allocates_can_be_kept() {
    enter();
    let graph = number::<usize>(|out| ok!(cuGraphCreate(out, 0)));
    // CUDA_MEM_ALLOC_NODE_PARAMS: pinned memory of device 0, 4096 bytes.
    let mut wanted = [0u32; 30];
    (wanted[0], wanted[2], wanted[26]) = (1, 1, 4096);
    let allocation: usize = number::<usize>(|out| {
        ok!(cuGraphAddMemAllocNode(out, graph, 0usize, 0, Out::<u8>::to_place(wanted.as_mut_ptr() as usize)))
    });
    let address = u64::from(wanted[28]) | u64::from(wanted[29]) << 32;
    let filled = Fill { to: address, pitch: 0, value: 9, element: 4, width: 1024, height: 1 };
    let fill = number::<usize>(|out| {
        ok!(cuGraphAddMemsetNode(out, graph, In::from(&allocation), 1, In::from(&filled), 0usize))
    });
    number::<usize>(|out| ok!(cuGraphAddEmptyNode(out, graph, In::from(&fill), 1)));
    assert_eq!(status!(cuGraphAddEmptyNode(Out::to(&mut 0), graph, In::from(&0xdead_usize), 1)), Status::INVALID_VALUE);
    assert_eq!(kinds(graph), [10, 2, 5]);
    let executable = number::<usize>(|out| ok!(cuGraphInstantiateWithFlags(out, graph, 0)));
    ok!(cuGraphLaunch(executable, 0usize));
    assert_eq!(number(|out: Out<u32>| ok!(cuMemcpyDtoH_v2(place(out), address + 4092, 4))), 9);
    assert_eq!(status!(cuGraphLaunch(executable, 0usize)), Status::INVALID_VALUE, "it is still there");
    ok!(cuMemFree_v2(address));
    assert_eq!(status!(cuMemFree_v2(address)), Status::INVALID_VALUE);
    ok!(cuGraphLaunch(executable, 0usize));
    ok!(cuGraphExecDestroy(executable));
    ok!(cuGraphDestroy(graph));
    assert!(is_known(address), "it outlives the graph");
    ok!(cuMemFreeAsync(address, 0usize));
    assert!(!is_known(address));
}

#[test]
fn a_destroyed_stream_is_captured_no_longer() {
    enter();
    let stream = number::<usize>(|out| ok!(cuStreamCreate(out, 1)));
    ok!(cuStreamBeginCapture_v2(stream, 0));
    let (status, id) = (number::<u32>(|out| ok!(cuStreamGetCaptureInfo(stream, out, 0usize))), 0usize);
    assert_eq!(status, 1);
    let mut graph = 7usize;
    let refused = status!(cuStreamGetCaptureInfo_v2(stream, id, 0usize, Out::to(&mut graph), 0usize, 0usize));
    assert!(refused != Status::SUCCESS && graph == 7, "an unknown property leaves the output unchanged");
    ok!(cuStreamDestroy_v2(stream));
    ok!(cuCtxSynchronize());
}

#[test]
fn contexts_have_ids_of_their_own() {
    enter();
    let current = number::<usize>(|out| ok!(cuCtxGetCurrent(out)));
    let other = number::<usize>(|out| ok!(cuCtxCreate_v2(out, 0, 0)));
    let id = |context: usize| number::<u64>(|out| ok!(cuCtxGetId(context, out)));
    assert_ne!(id(current), id(other));
    assert_eq!(id(0), id(other), "the current one");
    assert_ne!(status!(cuCtxGetId(0x1234usize, Out::to(&mut 0u64))), Status::SUCCESS);
    ok!(cuCtxDestroy_v2(other));
    ok!(cuCtxSetCurrent(current));
}

/// Kernels that wait for a word of memory, and one that writes to it.
const WAITING: &str = r#"void __mneme_cpu_yield(void);
    void wait_for(u64 *p) { volatile u32 *flag = (u32 *)p[0]; u32 left = 64; while (*flag == 0) if (--left == 0) { __mneme_cpu_yield(); left = 64; }
        *(volatile u32 *)p[1] += *flag; }
    void raise(u64 *p) { *(volatile u32 *)p[0] = (u32)p[1]; }"#;

/// A context with kernels that wait, the words that they use, and a non-blocking stream.
struct Waiting {
    context: usize,
    wait_for: usize,
    raise: usize,
    /// The words that kernels wait for, and to which they add.
    words: u64,
    stream: usize,
}

impl Waiting {
    fn new() -> Self {
        enter();
        let context = number::<usize>(|out| ok!(cuCtxCreate_v2(out, 0, 0)));
        let kernels = vec![kernel("wait_for", 2, false), kernel("raise", 2, false)];
        let object = testing::object(WAITING, kernels, vec![]);
        let module = number::<usize>(|out| ok!(cuModuleLoadData(out, object.as_ptr() as usize)));
        let function = |name: &std::ffi::CStr| {
            number::<usize>(|out| ok!(cuModuleGetFunction(out, module, CStringArgument(name.as_ptr()))))
        };
        let (wait_for, raise) = (function(c"wait_for"), function(c"raise"));
        Self {
            context,
            wait_for,
            raise,
            words: number::<u64>(|out| ok!(cuMemAlloc_v2(out, 16))),
            stream: Self::stream(1),
        }
    }

    fn stream(flags: u32) -> usize {
        number::<usize>(|out| ok!(cuStreamCreate(out, flags)))
    }

    fn word(&self, index: u64) -> u64 {
        self.words + 4 * index
    }

    fn shared(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a word of memory that lives as long as the context.
        unsafe { AtomicU32::from_ptr(self.word(index) as *mut u32) }
    }

    fn value(&self, index: u64) -> u32 {
        self.shared(index).load(Ordering::SeqCst)
    }

    fn set(&self, index: u64, value: u32) {
        self.shared(index).store(value, Ordering::SeqCst);
    }

    fn launch(&self, function: usize, arguments: [u64; 2], stream: usize) {
        let arguments: [*const u64; 2] = [&raw const arguments[0], &raw const arguments[1]];
        ok!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments.as_ptr() as usize, 0usize));
    }

    /// Launches a kernel that waits until word 0 is not 0, and adds it to word 1.
    fn wait_on(&self, stream: usize) {
        self.launch(self.wait_for, [self.word(0), self.word(1)], stream);
    }

    fn end(self) {
        ok!(cuCtxSynchronize());
        ok!(cuCtxDestroy_v2(self.context));
    }
}

#[test]
fn a_kernel_that_waits_for_the_host_goes_on_while_other_streams_work() {
    let waiting = Waiting::new();
    let [before, after] = [(); 2].map(|()| number::<usize>(|out| ok!(cuEventCreate(out, 0))));
    ok!(cuEventRecord(before, waiting.stream));
    waiting.wait_on(waiting.stream);
    let mut behind = [7u32; 2];
    ok!(cuMemHostRegister_v2(behind.as_mut_ptr() as u64, 8, 0));
    ok!(cuMemcpyDtoHAsync_v2(behind.as_mut_ptr() as u64, waiting.word(1), 4, waiting.stream));
    ok!(cuEventRecord(after, waiting.stream));
    for status in [
        status!(cuStreamQuery(waiting.stream)),
        status!(cuEventQuery(after)),
        status!(cuEventElapsedTime_v2(Out::to(&mut 0.0f32), before, after)),
    ] {
        assert_eq!(status, Status::NOT_READY);
    }
    ok!(cuEventQuery(before));
    let (other, word) = (Waiting::stream(1), number::<u64>(|out| ok!(cuMemAlloc_v2(out, 4))));
    ok!(cuMemsetD32Async(word, 3, 1, other));
    ok!(cuStreamQuery(other));
    ok!(cuStreamQuery(0usize));
    assert_eq!(number(|out: Out<u32>| ok!(cuMemcpyDtoH_v2(place(out), word, 4))), 3);
    assert_eq!((waiting.value(1), behind[0]), (0, 7));
    waiting.set(0, 5);
    ok!(cuStreamSynchronize(waiting.stream));
    ok!(cuEventQuery(after));
    assert_eq!((waiting.value(1), behind[0]), (5, 5));
    assert!(number::<f32>(|out| ok!(cuEventElapsedTime_v2(out, before, after))) > 10.0);
    ok!(cuMemHostUnregister(behind.as_ptr() as u64));
    waiting.end();
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    let waiting = Waiting::new();
    let [first, second, apart] = [0, 0, 1].map(Waiting::stream);
    let word = number::<u64>(|out| ok!(cuMemAlloc_v2(out, 4)));
    waiting.wait_on(first);
    // A fill of device memory does not wait.
    ok!(cuMemsetD32_v2(word, 9, 1));
    ok!(cuMemcpyDtoDAsync_v2(waiting.word(2), word, 4, second));
    for stream in [0, first, second] {
        assert_eq!(status!(cuStreamQuery(stream)), Status::NOT_READY);
    }
    ok!(cuStreamQuery(apart));
    waiting.set(0, 1);
    ok!(cuStreamSynchronize(second));
    assert_eq!((waiting.value(1), waiting.value(2)), (1, 9));
    waiting.end();
}

#[test]
fn kernels_wait_for_kernels_and_copies_of_other_streams() {
    let waiting = Waiting::new();
    let other = Waiting::stream(1);
    waiting.wait_on(waiting.stream);
    waiting.launch(waiting.raise, [waiting.word(0), 4], other);
    ok!(cuStreamSynchronize(waiting.stream));
    assert_eq!(waiting.value(1), 4);
    waiting.set(0, 0);
    waiting.wait_on(waiting.stream);
    ok!(cuMemsetD32Async(waiting.word(0), 6, 1, other));
    ok!(cuStreamSynchronize(waiting.stream));
    assert_eq!(waiting.value(1), 10);
    waiting.end();
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    let waiting = Waiting::new();
    let (other, event) = (Waiting::stream(1), number::<usize>(|out| ok!(cuEventCreate(out, 2))));
    waiting.wait_on(waiting.stream);
    ok!(cuEventRecord(event, waiting.stream));
    ok!(cuStreamWaitEvent(other, event, 0));
    waiting.launch(waiting.raise, [waiting.word(2), 8], other);
    assert_eq!((status!(cuStreamQuery(other)), waiting.value(2)), (Status::NOT_READY, 0));
    waiting.set(0, 1);
    ok!(cuStreamSynchronize(other));
    assert_eq!((waiting.value(1), waiting.value(2)), (1, 8));
    ok!(cuEventSynchronize(event));
    waiting.end();
}

#[test]
fn a_graph_goes_on_and_is_executed_once_at_a_time() {
    let waiting = Waiting::new();
    ok!(cuStreamBeginCapture_v2(waiting.stream, 0));
    waiting.wait_on(waiting.stream);
    ok!(cuMemsetD32Async(waiting.word(0), 0, 1, waiting.stream));
    let graph = number::<usize>(|out| ok!(cuStreamEndCapture(waiting.stream, out)));
    let executable = number::<usize>(|out| ok!(cuGraphInstantiateWithFlags(out, graph, 0)));
    let other = Waiting::stream(1);
    ok!(cuGraphLaunch(executable, waiting.stream));
    ok!(cuGraphLaunch(executable, other));
    ok!(cuGraphExecDestroy(executable));
    for (value, sum) in [(3, 3), (4, 7)] {
        assert_eq!(status!(cuStreamQuery(other)), Status::NOT_READY);
        waiting.set(0, value);
        while waiting.value(0) != 0 {
            std::thread::yield_now();
        }
        assert_eq!(waiting.value(1), sum);
    }
    ok!(cuStreamSynchronize(other));
    ok!(cuStreamSynchronize(waiting.stream));
    waiting.end();
}

#[test]
fn functions_of_the_host_may_wait_for_it_and_come_in_order() {
    unsafe extern "C" fn wait(word: *mut c_void) {
        // SAFETY: the test passes a word that outlives the call.
        let word = unsafe { AtomicU32::from_ptr(word.cast()) };
        while word.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // A call that would wait for the function itself is not permitted.
        assert_eq!(status!(cuCtxSynchronize()).0, 800);
        word.store(2, Ordering::SeqCst);
    }
    let waiting = Waiting::new();
    ok!(cuLaunchHostFunc(waiting.stream, wait as *mut c_void, waiting.word(0) as *mut c_void));
    waiting.wait_on(waiting.stream);
    assert_eq!(status!(cuStreamQuery(waiting.stream)), Status::NOT_READY);
    waiting.set(0, 1);
    ok!(cuStreamSynchronize(waiting.stream));
    assert_eq!(waiting.value(1), 2);
    waiting.end();
}

#[test]
fn memory_that_is_freed_or_staged_stays_until_what_uses_it_is_done() {
    let waiting = Waiting::new();
    let word = number::<u64>(|out| ok!(cuMemAlloc_v2(out, 4)));
    waiting.launch(waiting.wait_for, [waiting.word(0), word], waiting.stream);
    // The source may be changed when the call has returned.
    let mut source = 11u32;
    ok!(cuMemcpyHtoDAsync_v2(word, &raw const source as u64, 4, waiting.stream));
    source = 12;
    ok!(cuMemcpyDtoDAsync_v2(waiting.word(2), word, 4, waiting.stream));
    ok!(cuMemFreeAsync(word, waiting.stream));
    assert!(!is_known(word));
    waiting.set(0, 1);
    ok!(cuStreamSynchronize(waiting.stream));
    assert_eq!((waiting.value(2), source), (11, 12));
    waiting.end();
}
