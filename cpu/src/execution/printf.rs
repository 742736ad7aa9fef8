//! `printf` of device code.
//!
//! CUDA's compiler stores the arguments in a buffer, each at its natural alignment: integers of 4 or 8 bytes, doubles,
//! and 8-byte pointers. HIP's arguments have 8 bytes each. The C library formats each conversion, and the text goes to
//! C's `stdout`, which keeps it in order with the application's own output.

use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

use super::block;

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

/// The stream of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Output,
    Errors,
}

/// Output of kernels whose launch continues after its call, until the host reaches a point at which it appears.
static KEPT: Mutex<Vec<(Channel, Vec<u8>)>> = Mutex::new(Vec::new());
/// The most texts to keep.
const MOST_KEPT: usize = 16 << 10;

/// Prints the text, or keeps it for the next [`flush`] if a GPU would.
pub fn print(text: &[u8], channel: Channel) {
    // SAFETY: null outside kernels. Otherwise a launch is running, and keeps its dispatch.
    let continues = unsafe { block::running().as_ref().is_some_and(|running| (*running.dispatch).continues()) };
    if !continues {
        return write(text, channel);
    }
    let is_full = {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((channel, text.to_vec()));
        kept.len() >= MOST_KEPT
    };
    if is_full {
        flush();
    }
}

/// Prints the output that was kept.
pub fn flush() {
    let kept = std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    for (channel, text) in kept {
        write(&text, channel);
    }
}

fn write(text: &[u8], channel: Channel) {
    // SAFETY: the streams are the C library's, and the text has that length.
    unsafe {
        let stream = if channel == Channel::Output { stdout } else { stderr };
        libc::fwrite(text.as_ptr().cast(), 1, text.len(), stream)
    };
}

/// A conversion of a format: the text from `%` to the conversion letter, with `*` not yet replaced.
struct Conversion<'a> {
    flags: &'a str,
    width: Option<&'a str>,
    precision: Option<&'a str>,
    length: Length,
    letter: u8,
}

/// The type of a number, from the length modifier before the letter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    /// `hh`: the lowest byte of an `int`.
    Byte,
    /// `h`: the lowest two bytes.
    Short,
    Int,
    /// `l`, `ll`, `j`, `z`, `t` and `q`: 8 bytes.
    Long,
}

impl Length {
    fn of(text: &str) -> Self {
        match text {
            "hh" => Self::Byte,
            "h" => Self::Short,
            text if text.bytes().any(|byte| b"ljztq".contains(&byte)) => Self::Long,
            _ => Self::Int,
        }
    }

    /// The modifier for the C library and the type that the argument is read as.
    fn of_integers(self) -> &'static str {
        match self {
            Self::Byte => "hh",
            Self::Short => "h",
            Self::Int => "",
            Self::Long => "ll",
        }
    }
}

/// A reader of the arguments' buffer.
struct Arguments {
    base: *const u8,
    offset: usize,
    count: i32,
    /// The number of arguments if each has 8 bytes; `None` if they have natural alignment, and only the format tells
    /// their number.
    slots: Option<usize>,
}

impl Arguments {
    /// Reads the next argument. A missing number is zero, a missing pointer null.
    ///
    /// # Safety
    /// Without slots, the buffer must hold another argument of type `T`. Any bytes must be a valid `T`.
    unsafe fn next<T: Copy>(&mut self) -> T {
        self.offset = self.offset.next_multiple_of(if self.slots.is_some() { 8 } else { size_of::<T>() });
        if self.slots.is_some_and(|slots| self.offset >= 8 * slots) {
            // SAFETY: promised by the caller.
            return unsafe { std::mem::zeroed() };
        }
        // SAFETY: promised by the caller.
        let value = unsafe { self.base.add(self.offset).cast::<T>().read_unaligned() };
        self.offset += size_of::<T>();
        self.count += 1;
        value
    }
}

/// Formats and prints. Returns the number of arguments, like CUDA's, or -1.
///
/// # Safety
/// `format` must be a C string whose conversions match the arguments in the buffer.
pub unsafe fn vprintf(format: *const c_char, arguments: *const u8) -> i32 {
    if format.is_null() {
        return -1;
    }
    // SAFETY: promised by the caller.
    let format = unsafe { CStr::from_ptr(format) };
    // SAFETY: promised by the caller.
    let (text, count) = unsafe { expand(format.to_bytes(), arguments) };
    print(&text, Channel::Output);
    count
}

/// # Safety
/// As for [`vprintf`].
unsafe fn expand(format: &[u8], buffer: *const u8) -> (Vec<u8>, i32) {
    // SAFETY: promised by the caller.
    unsafe { expand_all(format, Arguments { base: buffer, offset: 0, count: 0, slots: None }) }
}

/// Arguments of 8 bytes each.
pub struct Slots<'a>(pub &'a [u64]);

/// # Safety
/// Arguments that the format treats as strings must be null or C strings.
pub unsafe fn expand_slots(format: &CStr, Slots(values): Slots<'_>) -> Vec<u8> {
    let arguments = Arguments { base: values.as_ptr().cast(), offset: 0, count: 0, slots: Some(values.len()) };
    // SAFETY: promised by the caller.
    unsafe { expand_all(format.to_bytes(), arguments) }.0
}

/// # Safety
/// The arguments must match the format.
unsafe fn expand_all(mut format: &[u8], mut arguments: Arguments) -> (Vec<u8>, i32) {
    let mut text = Vec::with_capacity(2 * format.len());
    while let Some(percent) = format.iter().position(|byte| *byte == b'%') {
        text.extend_from_slice(&format[..percent]);
        format = &format[percent..];
        let Some((conversion, length)) = parse(format) else {
            break;
        };
        let (written, rest) = format.split_at(length);
        // SAFETY: promised by the caller.
        unsafe { convert(&conversion, written, &mut arguments, &mut text) };
        format = rest;
    }
    text.extend_from_slice(format);
    (text, arguments.count)
}

/// Parses the conversion at the beginning of a format, and its length; `None` if it is incomplete.
fn parse(format: &[u8]) -> Option<(Conversion<'_>, usize)> {
    let mut at = 1;
    let take = |at: &mut usize, wanted: &dyn Fn(u8) -> bool| {
        let start = *at;
        while format.get(*at).is_some_and(|byte| wanted(*byte)) {
            *at += 1;
        }
        std::str::from_utf8(&format[start..*at]).unwrap_or_default()
    };
    let number = |byte: u8| byte.is_ascii_digit() || byte == b'*';
    let flags = take(&mut at, &|byte| b"-+ #0'".contains(&byte));
    let width = Some(take(&mut at, &number)).filter(|width| !width.is_empty());
    let precision = (format.get(at) == Some(&b'.')).then(|| {
        at += 1;
        take(&mut at, &number)
    });
    let length = Length::of(take(&mut at, &|byte| b"hljztqL".contains(&byte)));
    let letter = *format.get(at)?;
    Some((Conversion { flags, width, precision, length, letter }, at + 1))
}

/// # Safety
/// As for [`vprintf`], for this conversion.
unsafe fn convert(conversion: &Conversion<'_>, written: &[u8], arguments: &mut Arguments, text: &mut Vec<u8>) {
    if conversion.letter == b'%' {
        text.push(b'%');
        return;
    }
    let mut specification = format!("%{}", conversion.flags);
    let mut number = |field: &str| match field {
        // SAFETY: a `*` has an int argument before the value.
        "*" => unsafe { arguments.next::<i32>() }.to_string(),
        digits => digits.to_owned(),
    };
    if let Some(width) = conversion.width {
        specification += &number(width);
    }
    if let Some(precision) = conversion.precision {
        let precision = number(precision);
        // A negative precision counts as none.
        if !precision.starts_with('-') {
            specification += &format!(".{precision}");
        }
    }
    let as_c = |modifier: &str| {
        CString::new(format!("{specification}{modifier}{}", char::from(conversion.letter))).unwrap_or_default()
    };
    let integer = as_c(conversion.length.of_integers());
    // SAFETY: every arm reads an argument of the type that the letter means, and formats it as that type.
    unsafe {
        match conversion.letter {
            b'd' | b'i' if conversion.length == Length::Long => formatted(text, &integer, arguments.next::<i64>()),
            b'd' | b'i' => formatted(text, &integer, arguments.next::<i32>()),
            b'u' | b'x' | b'X' | b'o' if conversion.length == Length::Long => {
                formatted(text, &integer, arguments.next::<u64>())
            }
            b'u' | b'x' | b'X' | b'o' => formatted(text, &integer, arguments.next::<u32>()),
            b'c' => formatted(text, &as_c(""), arguments.next::<i32>()),
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => {
                formatted(text, &as_c(""), arguments.next::<f64>())
            }
            b's' => match arguments.next::<*const c_char>() {
                string if string.is_null() => formatted(text, &as_c(""), c"(null)".as_ptr()),
                string => formatted(text, &as_c(""), string),
            },
            b'p' => formatted(text, &as_c(""), arguments.next::<*const libc::c_void>()),
            // CUDA prints an unknown conversion unchanged.
            _ => text.extend_from_slice(written),
        }
    }
}

/// # Safety
/// `format` must have one conversion, for a `T`.
unsafe fn formatted<T: Copy + Variadic>(text: &mut Vec<u8>, format: &CStr, value: T) {
    let mut buffer = vec![0u8; 128];
    loop {
        // SAFETY: the buffer has the size given, and the caller promises the conversion.
        let needed = unsafe { value.print(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr()) };
        let Ok(needed) = usize::try_from(needed) else { return };
        if needed < buffer.len() {
            text.extend_from_slice(&buffer[..needed]);
            return;
        }
        buffer.resize(needed + 1, 0);
    }
}

/// A type that can be passed to a C function with variable arguments.
trait Variadic {
    /// # Safety
    /// As for `snprintf`.
    unsafe fn print(self, buffer: *mut c_char, size: usize, format: *const c_char) -> i32;
}

macro_rules! variadic {
    ($($type:ty),*) => {$(
        impl Variadic for $type {
            unsafe fn print(self, buffer: *mut c_char, size: usize, format: *const c_char) -> i32 {
                // SAFETY: promised by the caller.
                unsafe { libc::snprintf(buffer, size, format, self) }
            }
        }
    )*};
}

variadic!(i32, u32, i64, u64, f64, *const c_char, *const libc::c_void);

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(format: &str, buffer: &[u8]) -> (String, i32) {
        // SAFETY: the tests' buffers match their formats.
        let (text, count) = unsafe { expand(format.as_bytes(), buffer.as_ptr()) };
        (String::from_utf8(text).unwrap(), count)
    }

    #[test]
    fn arguments_lie_at_their_natural_alignment() {
        let mut buffer = Vec::new();
        buffer.extend((-7i32).to_le_bytes());
        buffer.extend([0xee; 4]);
        buffer.extend(2.5f64.to_le_bytes());
        buffer.extend(u32::from(b'x').to_le_bytes());
        buffer.extend([0xee; 4]);
        buffer.extend((c"word".as_ptr() as u64).to_le_bytes());
        buffer.extend((1i64 << 40).to_le_bytes());
        let (text, count) = expanded("[%5d|%.3f|%c|%-6s|%lld] 100%%\n", &buffer);
        assert_eq!(text, "[   -7|2.500|x|word  |1099511627776] 100%\n");
        assert_eq!(count, 5);
    }

    #[test]
    fn what_is_no_conversion_stays_as_it_is() {
        assert_eq!(expanded("50%é of %d, % €, %ly", &7i32.to_le_bytes()), ("50%é of 7, % €, %ly".to_owned(), 1));
    }

    /// The result is what C's `printf` makes of the same arguments.
    #[test]
    fn lengths_are_those_of_c() {
        for value in [-1i64, 300, 70_000, -129, i64::MIN, 0x1_8000_8080] {
            for letter in ["d", "i", "u", "x", "X", "o"] {
                for length in ["hh", "h", "", "l", "ll", "j", "z", "t", "q"] {
                    let format = format!("[%+8{length}{letter}]");
                    let of_c = CString::new(format.clone()).unwrap();
                    let mut text = [0u8; 64];
                    let is_long = !matches!(length, "hh" | "h" | "");
                    // SAFETY: the buffer has that size, and the argument has the type that the modifier means.
                    let written = unsafe {
                        let (place, size) = (text.as_mut_ptr().cast(), text.len());
                        if is_long {
                            libc::snprintf(place, size, of_c.as_ptr(), value)
                        } else {
                            libc::snprintf(place, size, of_c.as_ptr(), value as i32)
                        }
                    };
                    let expected = std::str::from_utf8(&text[..written as usize]).unwrap();
                    let argument =
                        if is_long { value.to_le_bytes().to_vec() } else { (value as i32).to_le_bytes().to_vec() };
                    assert_eq!(expanded(&format, &argument), (expected.to_owned(), 1), "{format} of {value}");
                    // SAFETY: the argument matches the format.
                    let in_slots = unsafe { expand_slots(&of_c, Slots(&[value as u64])) };
                    assert_eq!(String::from_utf8(in_slots).unwrap(), expected, "{format} of {value}");
                }
            }
        }
    }

    #[test]
    fn width_and_precision_can_be_arguments() {
        let mut buffer = Vec::new();
        for value in [8i32, 2] {
            buffer.extend(value.to_le_bytes());
        }
        buffer.extend(2.346f64.to_le_bytes());
        buffer.extend(0xabcu32.to_le_bytes());
        assert_eq!(expanded("%*.*f %#06x", &buffer), ("    2.35 0x0abc".to_owned(), 4));
    }

    #[test]
    fn arguments_in_slots_end_where_they_end() {
        let values = [u64::from(-7i32 as u32), 2.5f64.to_bits(), c"word".as_ptr() as u64, u64::MAX];
        let expanded = |format: &CStr, values: &[u64]| {
            // SAFETY: the tests' arguments match their formats.
            String::from_utf8(unsafe { expand_slots(format, Slots(values)) }).unwrap()
        };
        assert_eq!(expanded(c"[%d|%.1f|%s|%llu] %d %s", &values), "[-7|2.5|word|18446744073709551615] 0 (null)");
        assert_eq!(expanded(c"none", &[]), "none");
    }

    #[test]
    fn long_output_and_odd_formats_survive() {
        assert_eq!(expanded("%500d", &1i32.to_le_bytes()).0.len(), 500);
        assert_eq!(expanded("50%", &[]).0, "50%");
        assert_eq!(expanded("%s", &0u64.to_le_bytes()).0, "(null)");
        assert_eq!(expanded("%zu %ld", &[&7u64.to_le_bytes()[..], &(-9i64).to_le_bytes()].concat()).0, "7 -9");
    }
}
