//! Sampling of textures: which texels a coordinate selects, and how they are filtered.
//!
//! The rules are those of CUDA's programming guide: the centre of texel i is at i + 0.5, and a linear filter weighs two
//! neighbours with numbers of nine bits, eight of them fractional.

/// How a coordinate outside of an axis is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    Wrap,
    Clamp,
    Mirror,
    /// The border's colour.
    Border,
}

/// Steps from one texel to the next, in which a linear filter weighs.
const STEPS: i64 = 256;

/// How coordinates are interpreted.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Along x, y and z.
    pub modes: [AddressMode; 3],
    pub linear: bool,
    /// Whether an axis goes from 0 to 1 instead of to its number of texels.
    pub normalized: bool,
    /// The words of a texel outside.
    pub border: [u32; 4],
}

/// The axes of a texture and their texels. The first `axes` extents are valid.
#[derive(Clone, Copy, Debug)]
pub struct Axes {
    pub axes: usize,
    pub extent: [u32; 3],
}

impl AddressMode {
    /// The index of the texel for a number along an axis of `count` texels; `None` for the border.
    fn texel(self, number: i64, count: u32) -> Option<u32> {
        let count = i64::from(count);
        let inside = match self {
            Self::Wrap => number.rem_euclid(count),
            Self::Clamp => number.clamp(0, count - 1),
            Self::Mirror => {
                let place = number.rem_euclid(2 * count);
                place.min(2 * count - 1 - place)
            }
            Self::Border => number,
        };
        (0..count).contains(&inside).then_some(inside as u32)
    }
}

/// Rounds a coordinate down, limited to a range that is far larger than any axis.
fn floor(coordinate: f64) -> i64 {
    const FAR: f64 = (1u64 << 40) as f64;
    coordinate.clamp(-FAR, FAR).floor() as i64
}

/// The first of two neighbours, and the weight of the second one in [`STEPS`].
fn neighbours(coordinate: f64) -> (i64, i64) {
    let place = floor(coordinate * STEPS as f64 + 0.5) - STEPS / 2;
    (place.div_euclid(STEPS), place.rem_euclid(STEPS))
}

impl Sampler {
    /// A coordinate in texels, and the mode of its axis. Only normalised coordinates can wrap and mirror.
    fn along(&self, axis: usize, coordinate: f32, count: u32) -> (f64, AddressMode) {
        // NaN counts as 0.
        let coordinate = if coordinate.is_nan() { 0.0 } else { f64::from(coordinate) };
        match (self.normalized, self.modes[axis]) {
            // The integral part has no effect and, if it is large, would cost the fraction its precision.
            (true, mode) => {
                let own = match mode {
                    AddressMode::Wrap => coordinate.rem_euclid(1.0),
                    AddressMode::Mirror => coordinate.rem_euclid(2.0),
                    AddressMode::Clamp | AddressMode::Border => coordinate,
                };
                (own * f64::from(count), mode)
            }
            (false, AddressMode::Wrap | AddressMode::Mirror) => (coordinate, AddressMode::Clamp),
            (false, mode) => (coordinate, mode),
        }
    }

    fn at(&self, place: [Option<u32>; 3], texel: &impl Fn([u32; 3]) -> [u32; 4]) -> [u32; 4] {
        match place {
            [Some(x), Some(y), Some(z)] => texel([x, y, z]),
            _ => self.border,
        }
    }

    /// The words at a coordinate. `texel` returns the words of one texel, which are floats if they are filtered.
    pub fn sample(&self, of: Axes, at: [f32; 3], texel: impl Fn([u32; 3]) -> [u32; 4]) -> [u32; 4] {
        if !self.linear {
            let mut place = [Some(0); 3];
            for axis in 0..of.axes {
                let (coordinate, mode) = self.along(axis, at[axis], of.extent[axis]);
                place[axis] = mode.texel(floor(coordinate), of.extent[axis]);
            }
            return self.at(place, &texel);
        }
        let mut ends = [[(Some(0), STEPS), (None, 0)]; 3];
        for axis in 0..of.axes {
            let (coordinate, mode) = self.along(axis, at[axis], of.extent[axis]);
            let (first, second) = neighbours(coordinate);
            let texel = |number| mode.texel(number, of.extent[axis]);
            ends[axis] = [(texel(first), STEPS - second), (texel(first + 1), second)];
        }
        let mut sums = [0f64; 4];
        for (z, of_z) in ends[2] {
            for (y, of_y) in ends[1] {
                for (x, of_x) in ends[0] {
                    let weight = of_x * of_y * of_z;
                    // A texel without weight may be NaN.
                    if weight != 0 {
                        let words = self.at([x, y, z], &texel);
                        let weight = weight as f64 / (STEPS * STEPS * STEPS) as f64;
                        for (sum, word) in sums.iter_mut().zip(words) {
                            *sum += weight * f64::from(f32::from_bits(word));
                        }
                    }
                }
            }
        }
        sums.map(|sum| (sum as f32).to_bits())
    }

    /// A component of each of the four texels that a linear filter would weigh in a plane, counterclockwise from the
    /// lower left (y points up).
    pub fn gather(&self, of: Axes, at: [f32; 3], component: usize, texel: impl Fn([u32; 3]) -> [u32; 4]) -> [u32; 4] {
        let ends = [0, 1].map(|axis| {
            let (coordinate, mode) = self.along(axis, at[axis], of.extent[axis]);
            let (first, _) = neighbours(coordinate);
            [first, first + 1].map(|number| mode.texel(number, of.extent[axis]))
        });
        [(0, 1), (1, 1), (1, 0), (0, 0)].map(|(x, y)| self.at([ends[0][x], ends[1][y], Some(0)], &texel)[component])
    }

    /// The words of the texel at an integer coordinate, or zeros outside.
    pub fn fetch(of: Axes, at: [i32; 3], texel: impl Fn([u32; 3]) -> [u32; 4]) -> [u32; 4] {
        let mut place = [0; 3];
        for axis in 0..of.axes {
            match AddressMode::Border.texel(i64::from(at[axis]), of.extent[axis]) {
                Some(number) => place[axis] = number,
                None => return [0; 4],
            }
        }
        texel(place)
    }
}

/// The face of a cube that a direction points to, and the position on it, from 0 to 1.
pub fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let [width, height, depth] = [x.abs(), y.abs(), z.abs()];
    let (face, s, t, length) = if width >= height && width >= depth {
        if x >= 0.0 { (0, -z, -y, width) } else { (1, z, -y, width) }
    } else if height >= depth {
        if y >= 0.0 { (2, x, z, height) } else { (3, x, -z, height) }
    } else if z >= 0.0 {
        (4, x, -y, depth)
    } else {
        (5, -x, -y, depth)
    };
    (face, [s, t].map(|along| (along / length + 1.0) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Axes = Axes { axes: 1, extent: [4, 1, 1] };
    const TEXELS: [f32; 4] = [10.0, 20.0, 40.0, 80.0];

    fn sampler(mode: AddressMode, linear: bool, normalized: bool) -> Sampler {
        Sampler { modes: [mode; 3], linear, normalized, border: [(-1f32).to_bits(); 4] }
    }

    /// Samples four texels along a line.
    fn along(sampler: Sampler, coordinates: &[f32]) -> Vec<f32> {
        let texel = |[x, _, _]: [u32; 3]| [TEXELS[x as usize].to_bits(); 4];
        coordinates.iter().map(|x| f32::from_bits(sampler.sample(LINE, [*x, 9.0, 9.0], texel)[0])).collect()
    }

    #[test]
    fn outside_of_an_axis_is_what_the_mode_says() {
        let outside = [-1.125, -0.125, 0.125, 0.875, 1.125, 2.125];
        let nearest = |mode| along(sampler(mode, false, true), &outside);
        assert_eq!(nearest(AddressMode::Wrap), [80.0, 80.0, 10.0, 80.0, 10.0, 10.0]);
        assert_eq!(nearest(AddressMode::Clamp), [10.0, 10.0, 10.0, 80.0, 80.0, 80.0]);
        assert_eq!(nearest(AddressMode::Mirror), [80.0, 10.0, 10.0, 80.0, 80.0, 10.0]);
        assert_eq!(nearest(AddressMode::Border), [-1.0, -1.0, 10.0, 80.0, -1.0, -1.0]);
        // Unnormalised coordinates do not wrap.
        for mode in [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Clamp] {
            let places = [-5.0, 0.5, 1.99, 3.5, 4.0, 1e30, f32::NAN, f32::NEG_INFINITY];
            let expected = [10.0, 10.0, 20.0, 80.0, 80.0, 80.0, 10.0, 10.0];
            assert_eq!(along(sampler(mode, false, false), &places), expected, "{mode:?}");
        }
    }

    #[test]
    fn far_places_are_where_their_fraction_says() {
        let line = Axes { extent: [16384, 1, 1], ..LINE };
        let number = |[x, _, _]: [u32; 3]| [(x as f32).to_bits(); 4];
        for mode in [AddressMode::Wrap, AddressMode::Mirror] {
            let found = sampler(mode, true, true).sample(line, [300_000.25, 0.0, 0.0], number)[0];
            assert_eq!(f32::from_bits(found), 4095.5, "{mode:?}");
        }
    }

    #[test]
    fn neighbours_are_weighed_in_steps_of_a_256th() {
        let linear = |mode, places: &[f32]| along(sampler(mode, true, false), places);
        assert_eq!(linear(AddressMode::Clamp, &[0.5, 1.0, 1.5, 2.25, 0.0, 9.0]), [10.0, 15.0, 20.0, 35.0, 10.0, 80.0]);
        assert_eq!(linear(AddressMode::Border, &[0.0, 4.0, -0.5, 4.25]), [4.5, 39.5, -1.0, 19.25]);
        // 0.5 + 1/1024 is nearest to a weight of 0, 0.5 + 3/1024 to one of 1/256.
        let steps = linear(AddressMode::Clamp, &[0.5 + 1.0 / 1024.0, 0.5 + 3.0 / 1024.0, 1.5 - 1.0 / 1024.0]);
        assert_eq!(steps, [10.0, 10.0 + 10.0 / 256.0, 20.0]);
        let normalized = |mode| along(sampler(mode, true, true), &[0.0, 1.0, 1.25]);
        assert_eq!(normalized(AddressMode::Wrap), [45.0, 45.0, 15.0]);
        assert_eq!(normalized(AddressMode::Mirror), [10.0, 80.0, 60.0]);
    }

    #[test]
    fn planes_and_volumes_are_weighed_along_each_axis() {
        let number = |[x, y, z]: [u32; 3]| [(x as f32 + 10.0 * y as f32 + 100.0 * z as f32).to_bits(); 4];
        let of = Axes { axes: 3, extent: [3, 4, 5] };
        let linear = sampler(AddressMode::Clamp, true, false);
        let at = |x, y, z| f32::from_bits(linear.sample(of, [x, y, z], number)[2]);
        assert_eq!(at(1.25, 2.5, 3.0), 0.75 + 20.0 + 250.0);
        assert_eq!(at(-1.0, 1.0, 0.5), 5.0);
        // A component without weight may be NaN.
        let poisoned = |place: [u32; 3]| if place[0] == 2 { [f32::NAN.to_bits(); 4] } else { number(place) };
        assert_eq!(f32::from_bits(linear.sample(of, [1.5, 0.5, 0.5], poisoned)[0]), 1.0);
        let gathered = linear.gather(of, [1.75, 2.0, 0.0], 1, number).map(f32::from_bits);
        assert_eq!(gathered, [21.0, 22.0, 12.0, 11.0]);
    }

    #[test]
    fn whole_numbers_are_texels_and_nothing_is_outside() {
        let texel = |[x, y, _]: [u32; 3]| [x, y, 7, 7];
        let of = Axes { axes: 2, extent: [3, 2, 1] };
        assert_eq!(Sampler::fetch(of, [2, 1, 9], texel), [2, 1, 7, 7]);
        for outside in [[-1, 0, 0], [3, 0, 0], [0, 2, 0], [0, i32::MIN, 0]] {
            assert_eq!(Sampler::fetch(of, outside, texel), [0; 4]);
        }
    }

    #[test]
    fn directions_lead_to_faces() {
        let towards = [
            ([2.0, 1.0, -1.0], 0, [0.75, 0.25]),
            ([-2.0, 1.0, -1.0], 1, [0.25, 0.25]),
            ([1.0, 2.0, -1.0], 2, [0.75, 0.25]),
            ([1.0, -2.0, -1.0], 3, [0.75, 0.75]),
            ([1.0, -1.0, 2.0], 4, [0.75, 0.75]),
            ([1.0, -1.0, -2.0], 5, [0.25, 0.75]),
        ];
        for (direction, number, place) in towards {
            assert_eq!(face(direction), (number, place), "{direction:?}");
        }
    }
}
