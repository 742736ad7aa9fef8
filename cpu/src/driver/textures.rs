//! Texture and surface objects over arrays and linear memory.

use std::sync::Arc;

use mneme_abi::cuda::structures::{Resource, TextureDescription, array_flag, resource_kind, texture_flag};

use super::attributes::{ALIGNMENT, PITCH_ALIGNMENT};
use super::virtual_memory::HostAccess;
use super::{arrays, context, memory};
use crate::abi::{In, Out};
use crate::execution::images::{self, Image, NumberKind, ReadMode, TexelFormat, TexelMemory, Texture};
use crate::execution::sampling::{AddressMode, Sampler};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

/// The descriptions that an object was made from.
struct Described {
    context: usize,
    resource: Resource,
    /// `None` for a surface.
    texture: Option<TextureDescription>,
}

static OBJECTS: Registry<Described> = Registry::new("a texture or surface object");

fn refuse(what: &str) -> Status {
    crate::report::say!("{what} not supported");
    Status::NOT_SUPPORTED
}

/// The texels of the application's linear memory.
fn in_memory(address: u64, format: TexelFormat, extent: [u32; 3], pitch: u64) -> Result<TexelMemory, Status> {
    if !address.is_multiple_of(ALIGNMENT as u64) {
        return Err(Status::INVALID_VALUE);
    }
    let row = u64::from(extent[0]) * u64::from(format.size());
    memory::check(address, u64::from(extent[1] - 1) * pitch + row, HostAccess::Read)?;
    Ok(TexelMemory { start: address, format, extent, pitch, owner: None })
}

fn length(number: u64) -> Result<u32, Status> {
    u32::try_from(number).ok().filter(|length| *length != 0).ok_or(Status::INVALID_VALUE)
}

fn texels_of(resource: &Resource) -> Result<TexelMemory, Status> {
    let [first, second, third, fourth, fifth, ..] = resource.words;
    let format = || arrays::format_of(second as u32, (second >> 32) as u32);
    match resource.kind {
        resource_kind::ARRAY => Ok(arrays::get(first as usize)?.shared()),
        resource_kind::MIPMAPPED_ARRAY => Err(refuse("mipmapped arrays are")),
        resource_kind::LINEAR => {
            let format = format()?;
            let width = length(third / u64::from(format.size()))?;
            in_memory(first, format, [width, 1, 1], third)
        }
        resource_kind::PITCHED => {
            let (format, width, height) = (format()?, length(third)?, length(fourth)?);
            let row = u64::from(width) * u64::from(format.size());
            if fifth < row || !fifth.is_multiple_of(PITCH_ALIGNMENT as u64) || fifth > 1 << 32 {
                return Err(Status::INVALID_VALUE);
            }
            in_memory(first, format, [width, height, 1], fifth)
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

fn address_mode(number: u32) -> Result<AddressMode, Status> {
    match number {
        0 => Ok(AddressMode::Wrap),
        1 => Ok(AddressMode::Clamp),
        2 => Ok(AddressMode::Mirror),
        3 => Ok(AddressMode::Border),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// How texels of a format are read.
fn read_mode(format: TexelFormat, flags: u32) -> Result<ReadMode, Status> {
    let is_narrow_integer = format.kind != NumberKind::Float && format.bytes != 4;
    if flags & texture_flag::SRGB != 0 {
        // A texel that is not a colour is the same in every colour space.
        if (format.kind, format.bytes) != (NumberKind::Unsigned, 1) || flags & texture_flag::READ_AS_INTEGER != 0 {
            return Err(refuse("sRGB textures other than unsigned bytes read as floats are"));
        }
        return Ok(ReadMode::Srgb);
    }
    let normalized = is_narrow_integer && flags & texture_flag::READ_AS_INTEGER == 0;
    Ok(if normalized { ReadMode::Normalized } else { ReadMode::Element })
}

fn sampler_of(what: &TextureDescription, resource: &Resource, texels: &TexelMemory) -> Result<Texture, Status> {
    let format = texels.format;
    let read = read_mode(format, what.flags)?;
    let has_floats = format.kind == NumberKind::Float || read != ReadMode::Element;
    let mut linear = match what.filter {
        0 => false,
        1 => true,
        _ => return Err(Status::INVALID_VALUE),
    };
    let mut modes = [AddressMode::Clamp; 3];
    for (mode, number) in modes.iter_mut().zip(what.address_modes) {
        *mode = address_mode(number)?;
    }
    let mut normalized = what.flags & texture_flag::NORMALIZED_COORDINATES != 0;
    if resource.kind == resource_kind::LINEAR {
        // Such textures are read with integer coordinates, without filters and address modes.
        (linear, normalized, modes) = (false, false, [AddressMode::Border; 3]);
    }
    if linear && !has_floats {
        crate::report::say!("a texture whose integers are not read as floats cannot have a linear filter");
        return Err(Status::INVALID_VALUE);
    }
    if what.anisotropy > 1 {
        return Err(refuse("anisotropic filters are"));
    }
    if linear && what.flags & texture_flag::SEAMLESS_CUBE != 0 {
        return Err(refuse("linear filters across the edges of a cube are"));
    }
    if !has_floats && what.border.iter().any(|number| *number != 0.0) {
        return Err(refuse("integer borders other than 0 are"));
    }
    let sampler = Sampler { modes, linear, normalized, border: what.border.map(f32::to_bits) };
    Ok(Texture { texels: texels.clone(), sampler, read })
}

fn add(out: Out<u64>, described: Described, image: Image) -> StatusResult {
    let handle = OBJECTS.insert_lowest(Arc::new(described)) as u64;
    images::add(handle, image);
    out.put(handle)
}

pub fn create(
    out: Out<u64>,
    resource: In<Resource>,
    texture: In<TextureDescription>,
    view: In<[u32; 28]>,
) -> StatusResult {
    context::usable()?;
    let (resource, what) = (resource.get()?, texture.get()?);
    if !view.is_null() {
        return Err(refuse("resource views in another format are"));
    }
    let texels = texels_of(&resource)?;
    let texture = sampler_of(&what, &resource, &texels)?;
    let described = Described { context: context::current()?, resource, texture: Some(what) };
    add(out, described, Image::Texture(texture))
}

pub fn create_surface(out: Out<u64>, resource: In<Resource>) -> StatusResult {
    context::usable()?;
    let resource = resource.get()?;
    if resource.kind != resource_kind::ARRAY {
        return Err(Status::INVALID_VALUE);
    }
    let array = arrays::get(resource.words[0] as usize)?;
    if !array.has(array_flag::SURFACE) {
        return Err(Status::INVALID_VALUE);
    }
    let described = Described { context: context::current()?, resource, texture: None };
    add(out, described, Image::Surface(array.shared()))
}

fn object(handle: u64, is_texture: bool) -> Result<Arc<Described>, Status> {
    context::usable()?;
    let described = OBJECTS.get(handle as usize)?;
    if described.texture.is_some() == is_texture { Ok(described) } else { Err(Status::INVALID_VALUE) }
}

pub fn destroy(handle: u64, is_texture: bool) -> StatusResult {
    object(handle, is_texture)?;
    OBJECTS.remove(handle as usize)?;
    images::remove(handle);
    Ok(())
}

/// Destroys the objects of a context.
pub fn end_with(context: usize) {
    OBJECTS.remove_all(|object| object.context == context).into_iter().for_each(|handle| images::remove(handle as u64));
}

pub fn resource(out: Out<Resource>, handle: u64, is_texture: bool) -> StatusResult {
    out.put(object(handle, is_texture)?.resource)
}

pub fn description(out: Out<TextureDescription>, handle: u64) -> StatusResult {
    out.put(object(handle, true)?.texture.ok_or(Status::INVALID_VALUE)?)
}
