//! Quantities as people read them, in the same units everywhere.

/// A number of things, as in "1 block" and "2 blocks"; `one` is the word for one.
pub fn counted(number: usize, one: &str) -> String {
    let ending = if one.ends_with(['s', 'x']) || one.ends_with("ch") { "es" } else { "s" };
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}{ending}") }
}

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

/// A number in three digits. The largest one stands for infinity, which JSON has no number for.
pub fn figure(number: f64) -> String {
    if number >= f64::MAX {
        return "infinite".into();
    }
    let rounded: f64 = format!("{number:.2e}").parse().expect("a number that was written is one");
    if number == 0.0 || (1e-3..1e6).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!(
            [counted(1, "block"), counted(2, "block"), counted(0, "launch")],
            ["1 block", "2 blocks", "0 launches"]
        );
    }

    #[test]
    fn bytes_are_binary() {
        assert_eq!(
            [0, 1023, 1024, 81_920_000, 1 << 40].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "78.12 MiB", "1.00 TiB"]
        );
    }

    #[test]
    fn times_have_three_figures_or_so() {
        assert_eq!([850.0, 12_345.0, 4.56e6, 1.2e9].map(time), ["850 ns", "12.3 µs", "4.56 ms", "1.20 s"]);
    }

    #[test]
    fn figures_have_three_digits() {
        let found = [1.499_765_157e0, 1.312_228_8e-5, 392.387_486, 1e-3, 9.999e-4, 1_069_545_550.0, 0.0, f64::INFINITY]
            .map(figure);
        assert_eq!(found, ["1.5", "1.31e-5", "392", "0.001", "0.001", "1.07e9", "0", "infinite"]);
    }
}
