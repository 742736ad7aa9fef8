//! Textures and surfaces: `tex`, `tld4`, `txq`, `suld`, `sust`, `suq`.
//!
//! The device performs the operations; this module arranges coordinates and results in words.

use super::emitter::Emitter;
use super::matrix::Fragment;
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::{Kind, Scalar};

/// Geometries by number (docs/reference/cpu-code-objects.md). Arrays have a layer besides their coordinates.
const GEOMETRIES: [&str; 7] = ["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"];
/// The number of leading geometries that surfaces support, too.
const OF_SURFACES: usize = 5;

const COMPONENTS: [&str; 4] = ["r", "g", "b", "a"];
const BOUNDARIES: [&str; 3] = ["trap", "clamp", "zero"];
/// Properties of an image to query, by number.
const QUERIES: [&str; 6] = ["width", "height", "depth", "array_size", "num_mipmap_levels", "normalized_coords"];

/// Words for a position, and for the stored or loaded data from byte [`DATA`] on.
const PLACE: &str = "[8 x i32]";
const DATA: u32 = 16;

fn geometry(name: &str) -> Option<usize> {
    GEOMETRIES.iter().position(|known| *known == name)
}

impl<'a> Emitter<'a, '_> {
    pub fn image(&mut self, op: &Op<'a>) -> Option<()> {
        let parts: Vec<&str> = std::iter::once(op.name).chain(op.modifiers.iter().copied()).collect();
        match (&parts[..], &op.operands[..]) {
            // There is only one level, so the requested or computed level is irrelevant.
            (["tex", "base", geometry, rest @ ..] | ["tex", geometry, rest @ ..], [to, from])
            | (["tex", "level", geometry, rest @ ..], [to, from, _])
            | (["tex", "grad", geometry, rest @ ..], [to, from, _, _]) => self.sample(geometry, rest, 0, to, from),
            (["tld4", component, geometry @ ("2d" | "a2d"), rest @ ..], [to, from]) => {
                let component = COMPONENTS.iter().position(|name| name == component)?;
                self.sample(geometry, rest, component + 1, to, from)
            }
            (["txq" | "suq", query, "b32"], [to, Resolved::Bracket(handle)])
            | (["txq", "level", query, "b32"], [to, Resolved::Bracket(handle), _]) => {
                self.query(op.name, query, to, handle)
            }
            (["suld", "b", geometry, rest @ ..], [data, from]) => {
                let (what, data_type) = surface_access(geometry, rest)?;
                let (handle, place) = self.coordinates(geometry, from, false)?;
                self.line(format_args!("call void @__mneme_cpu_surface_load(i64 {handle}, i32 {what}, ptr {place})"));
                self.take_registers(&place, DATA, Self::elements(data), data_type)
            }
            (["sust", "b", geometry, rest @ ..], [to, data]) => {
                let (what, data_type) = surface_access(geometry, rest)?;
                let (handle, place) = self.coordinates(geometry, to, false)?;
                self.put_registers(&place, DATA, Self::elements(data), data_type)?;
                self.done(format_args!("call void @__mneme_cpu_surface_store(i64 {handle}, i32 {what}, ptr {place})"))
            }
            _ => None,
        }
    }

    /// `component` is 0, or the gathered component, counted from 1.
    fn sample(
        &mut self,
        geometry: &str,
        rest: &[&str],
        component: usize,
        to: &Resolved<'a>,
        from: &Resolved<'a>,
    ) -> Option<()> {
        let ["v4", "f32" | "s32" | "u32", coordinates @ ("f32" | "s32")] = rest else { return None };
        let floats = *coordinates == "f32";
        let (number, is_cube) = (self::geometry(geometry)?, geometry.ends_with("cube"));
        if (is_cube || component != 0) && !floats {
            return None;
        }
        let what = number | usize::from(floats) << 8 | component << 16;
        let (handle, place) = self.coordinates(geometry, from, true)?;
        self.line(format_args!("call void @__mneme_cpu_texture(i64 {handle}, i32 {what}, ptr {place})"));
        let (to, resident) = match to {
            Resolved::Pair(to, resident) => (&**to, Some(resident)),
            to => (to, None),
        };
        self.take_registers(&place, 0, Self::elements(to), Fragment::plain(32, 4))?;
        // The whole array is always resident.
        resident.map_or(Some(()), |resident| self.write_bits(resident, 1, "true", false))
    }

    /// The handle, and a position with layer and coordinates.
    fn coordinates(&mut self, geometry: &str, from: &Resolved<'a>, is_texture: bool) -> Option<(String, String)> {
        let Resolved::Bracket(items) = from else { return None };
        let [handle, coordinates] = &items[..] else { return None };
        self::geometry(geometry).filter(|number| is_texture || *number < OF_SURFACES)?;
        let layered = geometry.starts_with('a');
        let count = match geometry.trim_start_matches('a') {
            "1d" => 1,
            "2d" => 2,
            _ => 3,
        };
        let all = Self::elements(coordinates);
        // The remaining operands pad a vector of four.
        if all.len() < usize::from(layered) + count || all.len() > 4 {
            return None;
        }
        let handle = self.bits(handle, 64)?;
        let place = self.place(PLACE);
        for (index, coordinate) in (if layered { 0 } else { 1 }..).zip(&all[..usize::from(layered) + count]) {
            let value = self.bits(coordinate, 32)?;
            let address = self.offset(&place, Ty::Ptr(0), 4 * index);
            self.line(format_args!("store i32 {value}, ptr {address}, align 4"));
        }
        Some((handle, place))
    }

    fn query(&mut self, name: &str, query: &str, to: &Resolved<'a>, handle: &[Resolved<'a>]) -> Option<()> {
        let number = QUERIES.iter().position(|known| *known == query)?;
        let is_texture = name == "txq";
        // Levels and coordinates apply to textures only.
        if !is_texture && number > 3 {
            return None;
        }
        let what = number | usize::from(is_texture) << 8;
        let [handle] = handle else { return None };
        let handle = self.bits(handle, 64)?;
        let value = self.value(format!("call i32 @__mneme_cpu_image_query(i64 {handle}, i32 {what})"));
        self.write_bits(to, 32, &value, false)
    }
}

/// The device's code for an access, and the registers with its data.
fn surface_access(geometry: &str, rest: &[&str]) -> Option<(u32, Fragment)> {
    let (boundary, rest) = rest.split_last()?;
    let boundary = BOUNDARIES.iter().position(|known| known == boundary)? as u32;
    let (ty, rest) = rest.split_last()?;
    let bits = Scalar::of(ty).filter(|scalar| scalar.kind == Kind::Bits)?.bits;
    let rest = match rest {
        ["ca" | "cg" | "cs" | "cv" | "wb" | "wt", rest @ ..] => rest,
        rest => rest,
    };
    let count = match rest {
        [] => 1,
        ["v2"] => 2,
        ["v4"] => 4,
        _ => return None,
    };
    let data = Fragment::plain(bits, count);
    let what = self::geometry(geometry)? as u32 | data.bytes() << 8 | boundary << 16;
    (data.bytes() <= 16).then_some((what, data))
}
