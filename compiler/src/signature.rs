//! Checks that a kernel's parameters are those that were recorded.

use mneme_recording::database::ArgumentLayout;

use crate::error::BuildError;

/// Refuses parameters that differ from the recorded ones in number or size (`found`, in bytes). Offsets need not agree,
/// because a launch passes parameters one by one. (A parameter with an alignment of more than 16 bytes has another
/// offset on another architecture, where parameters begin elsewhere in constant memory.)
pub fn check(kernel: &str, recorded: &[ArgumentLayout], found: &[u32]) -> Result<(), BuildError> {
    let refused = |difference: String| Err(BuildError::Signature { kernel: kernel.to_owned(), difference });
    if recorded.len() != found.len() {
        return refused(format!("it has {} parameters, but {} were recorded", found.len(), recorded.len()));
    }
    for (index, (recorded, found)) in recorded.iter().zip(found).enumerate() {
        if recorded.size != *found {
            return refused(format!("parameter {index} has {found} bytes, but {} were recorded", recorded.size));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let recorded: Vec<_> = [(0, 8), (8, 4), (16, 24), (40, 8)]
            .map(|(offset, size)| ArgumentLayout { offset, size, kind: String::new() })
            .into();
        assert!(check("kernel", &recorded, &[8, 4, 24, 8]).is_ok());
        let error = check("kernel", &recorded, &[8, 4, 24]).unwrap_err().to_string();
        assert!(error.contains("3 parameters, but 4 were recorded"), "{error}");
        let error = check("kernel", &recorded, &[8, 8, 24, 8]).unwrap_err().to_string();
        assert!(error.contains("parameter 1 has 8 bytes, but 4 were recorded"), "{error}");
    }
}
