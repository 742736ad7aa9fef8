//! Questions from an application's process to `mneme apply`, left in a folder, and the answers.
//!
//! Processes of several PID namespaces may use one folder, so questions have random names. Every answer repeats its
//! question, and the reader refuses one that repeats another.

use std::path::{Path, PathBuf};

use mneme_system::files::{self, FileAccess, trust};
use mneme_system::random;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a question under a random name, which it returns.
///
/// # Errors
/// The file cannot be written.
pub fn ask(question: &impl Serialize, folder: &Path, kind: &str) -> std::io::Result<String> {
    let name = random::name()?;
    save(question, folder, &name, kind)?;
    Ok(name)
}

/// The file of this name and kind.
pub fn file(folder: &Path, name: &str, kind: &str) -> PathBuf {
    folder.join(format!("{name}.{kind}"))
}

/// Writes a question or an answer atomically: a reader sees either all of it or no file.
///
/// # Errors
/// The file cannot be written.
pub fn save(what: &impl Serialize, folder: &Path, name: &str, kind: &str) -> std::io::Result<()> {
    let text = serde_json::to_vec(what).expect("plain data serialises");
    files::replace(&file(folder, name, kind), &text, FileAccess::Private)
}

/// A question or an answer, once it exists; `None` if it is unreadable or belongs to a stranger.
pub fn load<T: DeserializeOwned>(folder: &Path, name: &str, kind: &str) -> Option<T> {
    serde_json::from_slice(&trust::read(&file(folder, name, kind)).ok()?).ok()
}

/// The unanswered questions of a folder, with their names.
pub fn waiting<T: DeserializeOwned>(folder: &Path, question: &str, answer: &str) -> Vec<(String, T)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let questions = paths.filter(|path| path.extension().is_some_and(|extension| extension == question));
    questions
        .filter(|path| !path.with_extension(answer).exists())
        .filter_map(|path| {
            let name = path.file_stem()?.to_str()?.to_owned();
            let asked = load(folder, &name, question)?;
            Some((name, asked))
        })
        .collect()
}
