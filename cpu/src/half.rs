//! Half precision for machines without F16C.
//!
//! The ABIs of x86-64 and AArch64 pass a half in the low 16 bits of a vector register; the bits above are undefined.

/// `__extendhfsf2`
pub extern "C" fn to_float(half: f32) -> f32 {
    bits_to_float(half.to_bits() as u16)
}

/// `__truncsfhf2`
pub extern "C" fn from_float(value: f32) -> f32 {
    f32::from_bits(u32::from(float_to_bits(value)))
}

/// `__truncdfhf2`: rounds once, from the double.
pub extern "C" fn from_double(value: f64) -> f32 {
    f32::from_bits(u32::from(double_to_bits(value)))
}

/// `__gnu_h2f_ieee`
pub extern "C" fn bits_to_float(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10 & 31);
    let fraction = u32::from(half & 0x3ff);
    let magnitude = match exponent {
        0 => (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        31 => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// `__gnu_f2h_ieee`
pub extern "C" fn float_to_bits(value: f32) -> u16 {
    double_to_bits(f64::from(value))
}

fn double_to_bits(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    if value.is_nan() {
        return sign | 0x7e00;
    }
    // The largest half is 65504; from halfway to the next step on, the value rounds to infinity.
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    // The step between neighbouring halves: 2^(exponent - 10), at least 2^-24.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(-14);
    let steps = (magnitude / 2f64.powi(exponent - 10)).round_ties_even() as u32;
    // A mantissa that rounds up to the next power of two carries into the exponent field, which is correct.
    sign | (((exponent + 14) as u32 * 1024 + steps) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_a_round_trip() {
        for bits in 0..=u16::MAX {
            let value = bits_to_float(bits);
            if value.is_nan() {
                assert!(bits & 0x7c00 == 0x7c00 && bits & 0x3ff != 0);
            } else {
                assert_eq!(float_to_bits(value), bits);
            }
        }
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        assert_eq!(float_to_bits(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(float_to_bits(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(float_to_bits(65519.0), 0x7bff);
        assert_eq!(float_to_bits(65520.0), 0x7c00);
        assert_eq!(double_to_bits(2f64.powi(-25)), 0);
        assert_eq!(double_to_bits(2f64.powi(-25) * 1.5), 1);
    }
}
