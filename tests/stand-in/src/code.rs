//! Modules, functions and variables.

use std::ffi::CStr;

use goblin::elf::Elf;
use goblin::elf::header::header64::Header;
use mneme_abi::cuda::driver::pointers;
use mneme_abi::hip::types::*;
use mneme_image::bundle;

use crate::backend;
use crate::books::{MemorySource, books};
use crate::compilation;
use crate::devices;
use crate::mistake::{CallResult, Mistake, place, wrong};

const ELF_MAGIC: &[u8] = b"\x7fELF";
const EM_AMDGPU: u16 = 224;
const ELFOSABI_AMDGPU_HSA: u8 = 64;
const SHARED_OBJECT: u16 = 3;
/// The suffix of a kernel's name in the name of its descriptor.
const DESCRIPTOR: &str = ".kd";

/// The kinds of images.
enum Image<'a> {
    /// A code object.
    Object(&'a [u8]),
    /// A code object from a bundle.
    Bundled(Vec<u8>),
}

impl Image<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Object(bytes) => bytes,
            Self::Bundled(bytes) => bytes,
        }
    }
}

/// The image at an address. Its headers contain the length. `None` for a bundle without code for this device.
unsafe fn image_at<'a>(image: *const u8) -> Result<Option<Image<'a>>, Mistake> {
    let bytes = |length: usize| {
        // SAFETY: the caller passes an image, and its headers contain this length.
        unsafe { std::slice::from_raw_parts(image, length) }
    };
    if bytes(ELF_MAGIC.len()) == ELF_MAGIC {
        let Ok(header) =
            bytes(size_of::<Header>()).try_into().map(|bytes: &[u8; size_of::<Header>()]| Header::from_bytes(bytes))
        else {
            return wrong("the image has no ELF header");
        };
        if header.e_machine != EM_AMDGPU || header.e_ident[7] != ELFOSABI_AMDGPU_HSA {
            return wrong(format!("the image is an ELF file for machine {}, not for an AMD GPU", header.e_machine));
        }
        if header.e_type != SHARED_OBJECT {
            return wrong("the image is a relocatable object: it was not linked");
        }
        let end = header.e_shoff as usize + usize::from(header.e_shnum) * usize::from(header.e_shentsize);
        return Ok(Some(Image::Object(bytes(end))));
    }
    let length = if bytes(bundle::COMPRESSED_MAGIC.len()) == bundle::COMPRESSED_MAGIC {
        match bundle_length(bytes(16)) {
            Some(length) => length,
            None => return wrong("the compressed bundle does not say its length"),
        }
    } else if bytes(bundle::MAGIC.len()) == bundle::MAGIC {
        plain_length(bytes)
    } else {
        return wrong("the image is neither an ELF file nor a bundle");
    };
    let Some(plain) = bundle::plain(bytes(length)) else { return wrong("the bundle is damaged") };
    let own = devices::processor();
    let found = bundle::entries(&plain).into_iter().find(|entry| entry.processor().split(':').next() == Some(&own));
    Ok(found.map(|entry| Image::Bundled(entry.bytes.into())))
}

/// The length in a compressed bundle's header, from version 2 on.
fn bundle_length(header: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    match word(4)? & 0xffff {
        2 | 3 => word(8).map(|length| length as usize),
        _ => None,
    }
}

/// The end of the last entry of a bundle. Reads only as far as the entries reach.
fn plain_length<'a>(bytes: impl Fn(usize) -> &'a [u8]) -> usize {
    let long = |at: usize| {
        let bytes = &bytes(at + 8)[at..];
        u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes")) as usize
    };
    let (mut at, mut end) = (bundle::MAGIC.len() + 8, 0);
    for _ in 0..long(bundle::MAGIC.len()) {
        end = end.max(long(at) + long(at + 8));
        at += 24 + long(at + 16);
    }
    end.max(at)
}

/// Names of the kernels that a code object defines.
fn kernels(object: &[u8]) -> Option<Vec<String>> {
    let elf = Elf::parse(object).ok()?;
    let names = elf.dynsyms.iter().filter(|symbol| symbol.st_shndx != 0);
    let names = names.filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name)?.strip_suffix(DESCRIPTOR));
    Some(names.map(str::to_owned).collect())
}

pub unsafe fn load_data(driver: pointers::cuModuleLoadData, module: *mut CUmodule, image: *const c_void) -> CallResult {
    place(module, "the module")?;
    if image.is_null() {
        return wrong("the image is null");
    }
    // SAFETY: the caller's image.
    let Some(found) = unsafe { image_at(image.cast()) }? else { return Ok(Status::NO_BINARY_FOR_GPU) };
    let object = found.bytes();
    if let Image::Object(object) = found {
        devices::check_processor(object)?;
    }
    let status = match compilation::ir_of(object) {
        Some(bitcode) => {
            let compiled = compilation::object(&bitcode)?;
            // SAFETY: the CPU device copies its own object.
            unsafe { driver(module, compiled.as_ptr().cast()) }
        }
        // The program may contain the IR next to the image. The CPU device finds it by the image's address.
        // SAFETY: the caller passes an image.
        None => match unsafe { driver(module, image) } {
            Status::NO_BINARY_FOR_GPU | Status::INVALID_IMAGE => {
                return wrong("the IR of the code object is not known: it is neither in it nor in MNEME_STAND_IN_IR");
            }
            status => status,
        },
    };
    if status == Status::SUCCESS {
        let mut books = books();
        // SAFETY: the place was checked.
        let handle = unsafe { *module } as usize;
        books.gone.remove(&handle);
        books.modules.insert(handle, kernels(object));
    }
    Ok(status)
}

pub unsafe fn load_data_ex(
    driver: pointers::cuModuleLoadData,
    module: *mut CUmodule,
    image: *const c_void,
    count: c_uint,
    options: *mut c_void,
    values: *mut *mut c_void,
) -> CallResult {
    if count > 0 && (options.is_null() || values.is_null()) {
        return wrong(format!("{count} options are given, and their places are null"));
    }
    // SAFETY: as for the caller. The options concern compilers that HIP lacks.
    unsafe { load_data(driver, module, image) }
}

pub unsafe fn load_file(driver: pointers::cuModuleLoadData, module: *mut CUmodule, file: *const c_char) -> CallResult {
    if file.is_null() {
        return wrong("the file's name is null");
    }
    // SAFETY: the caller passes a terminated name.
    let name = unsafe { CStr::from_ptr(file) };
    let Ok(bytes) = std::fs::read(std::path::Path::new(&*name.to_string_lossy())) else {
        return Ok(Status::FILE_NOT_FOUND);
    };
    // SAFETY: the bytes live until the call returns.
    unsafe { load_data(driver, module, bytes.as_ptr().cast()) }
}

pub unsafe fn unload(driver: pointers::cuModuleUnload, module: CUmodule) -> CallResult {
    {
        let mut books = books();
        books.check_module(module)?;
        let handle = module as usize;
        books.modules.remove(&handle);
        books.gone.insert(handle);
        books.blocks.retain(|_, block| block.source != MemorySource::Module(handle));
    }
    // SAFETY: the books say that it is a module.
    Ok(unsafe { driver(module) })
}

fn check_name(name: *const c_char) -> Result<(), Mistake> {
    // SAFETY: the caller passes null or a terminated name.
    if name.is_null() || unsafe { CStr::from_ptr(name) }.is_empty() { wrong("the name is empty") } else { Ok(()) }
}

pub unsafe fn function(
    driver: pointers::cuModuleGetFunction,
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CallResult {
    place(function, "the function")?;
    check_name(name)?;
    // SAFETY: just checked.
    let text = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    {
        let books = books();
        books.check_module(module)?;
        // The IR may define more variables than the code object.
        if books.modules[&(module as usize)]
            .as_ref()
            .is_some_and(|kernels| !kernels.is_empty() && !kernels.contains(&text))
        {
            return Ok(Status::NOT_FOUND);
        }
    }
    // SAFETY: the books say that it is a module; the place and the name were checked.
    unsafe {
        let status = driver(function, module, name);
        if status == Status::SUCCESS {
            books().functions.insert(*function as usize, (module as usize, text));
        }
        Ok(status)
    }
}

pub unsafe fn variable(
    driver: pointers::cuModuleGetGlobal_v2,
    address: *mut CUdeviceptr,
    bytes: *mut usize,
    module: CUmodule,
    name: *const c_char,
) -> CallResult {
    check_name(name)?;
    books().check_module(module)?;
    let (mut start, mut size) = (0, 0);
    // SAFETY: the books say that it is a module; the places are ours.
    let status = unsafe { driver(&mut start, &mut size, module, name) };
    if status == Status::SUCCESS {
        books().allocated(start, size as u64, MemorySource::Module(module as usize));
        // SAFETY: the caller's places are null or valid.
        unsafe {
            if !address.is_null() {
                *address = start;
            }
            if !bytes.is_null() {
                *bytes = size;
            }
        }
    }
    Ok(status)
}

/// The last function attribute of HIP.
const LAST_ATTRIBUTE: u32 = 9;

pub unsafe fn function_attribute(
    driver: pointers::cuFuncGetAttribute,
    value: *mut c_int,
    attribute: c_uint,
    function: CUfunction,
) -> CallResult {
    place(value, "the value")?;
    if attribute > LAST_ATTRIBUTE {
        return wrong(format!("{attribute} is no attribute of a function"));
    }
    books().check_function(function)?;
    // SAFETY: the books say that it is a function.
    Ok(unsafe { driver(value, attribute, function) })
}

/// Offset and size of each parameter.
pub fn parameters(function: CUfunction) -> Result<Vec<(usize, usize)>, Mistake> {
    // SAFETY: the type is the function's.
    let ask: pointers::cuFuncGetParamInfo = unsafe { backend::function("cuFuncGetParamInfo") }?;
    let mut found = Vec::new();
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the caller has checked the function; the places are ours.
    while unsafe { ask(function, found.len(), &mut offset, &mut size) } == Status::SUCCESS {
        found.push((offset, size));
    }
    Ok(found)
}
