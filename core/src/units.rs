//! Quantities as people read them, in the same units everywhere.

/// Bytes in binary units: "512 B", "1.25 MiB".
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.2} {}", UNITS[unit]) }
}

/// A time given in ns: "850 ns", "12.3 µs", "4.56 ms", "1.20 s".
pub fn time(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_binary() {
        assert_eq!([0, 1023, 1024, 81_920_000, 1 << 40].map(bytes), ["0 B", "1023 B", "1.00 KiB", "78.12 MiB", "1.00 TiB"]);
    }

    #[test]
    fn times_have_three_figures_or_so() {
        assert_eq!([850.0, 12_345.0, 4.56e6, 1.2e9].map(time), ["850 ns", "12.3 µs", "4.56 ms", "1.20 s"]);
    }
}
