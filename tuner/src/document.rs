//! Reads and writes files for people, in JSON or YAML.

use std::path::{Path, PathBuf};

use mneme_system::console::is_full;
use mneme_system::exit;
use mneme_system::files::trust;
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("{path} cannot be read: {source}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} cannot be written: {source}", path = path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// `problem` names line and column.
    #[error("{path} cannot be understood: {problem}", path = path.display())]
    Syntax { path: PathBuf, problem: String },
}

impl DocumentError {
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Read { source, .. } => trust::exit_status(source),
            Self::Write { source, .. } if is_full(source) => exit::INTERNAL,
            Self::Write { .. } | Self::Syntax { .. } => exit::BAD_USAGE,
        }
    }
}

/// Reads a file: JSON if its name ends in `.json`, otherwise YAML.
pub fn read(path: &Path) -> Result<Value, DocumentError> {
    let text = trust::read_text(path).map_err(|source| DocumentError::Read { path: path.into(), source })?;
    let parsed = if is_json(path) {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        yaml_serde::from_str(&text).map_err(|error| error.to_string())
    };
    parsed.map_err(|problem| DocumentError::Syntax { path: path.into(), problem })
}

/// Writes a file: YAML if its name ends in `.yml` or `.yaml`, otherwise JSON.
pub fn write(path: &Path, value: &impl serde::Serialize) -> Result<(), DocumentError> {
    let yaml = path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml");
    let text = if yaml {
        yaml_serde::to_string(value).map_err(std::io::Error::other)
    } else {
        serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(std::io::Error::other)
    };
    text.and_then(|text| crate::results::replace(path, text.as_bytes()))
        .map_err(|source| DocumentError::Write { path: path.into(), source })
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_read_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let value = json!({"record_id": "16313427880266313990", "passes": ["default<O1>", "a,b"], "iterations": 5, "quiet": true});
        for name in ["it.json", "it.yml", "it.yaml"] {
            let path = folder.path().join(name);
            write(&path, &value).unwrap();
            assert_eq!(read(&path).unwrap(), value, "{name}");
        }
        let path = folder.path().join("large.yml");
        std::fs::write(&path, "id: 16313427880266313990\nmode: on-off\nswitch: off\n").unwrap();
        assert_eq!(read(&path).unwrap(), json!({"id": 16313427880266313990u64, "mode": "on-off", "switch": "off"}));
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrong.yml");
        std::fs::write(&path, "a: [1, 2").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("wrong.yml cannot be understood"));
        assert!(read(&folder.path().join("none.json")).unwrap_err().to_string().contains("none.json cannot be read"));
    }
}
