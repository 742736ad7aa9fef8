//! Files of results as resources, read in parts.
//!
//! `mneme:///tune-1/report.html?offset=0&limit=65536` is a part of `mneme-mcp/tune-1/report.html` in the first allowed
//! folder. Only the folders of jobs are served. No tool writes a recording there, so a client cannot read recorded
//! memory.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mneme_system::files::regular;
use rmcp::model::{JsonObject, MetaObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::tools::ENTRIES;

const SCHEME: &str = "mneme:///";
/// Bytes of a part.
const USUAL: u64 = 64 << 10;
const MOST: u64 = 256 << 10;
/// The most files of a job that are listed, and the deepest folders that are looked into.
const MOST_FILES: usize = 40;
const DEEPEST: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    #[error("'{0}' is no resource; use a URI from a tool's result")]
    Unknown(String),
    #[error("offset and limit are whole numbers, and limit is at most {MOST}")]
    Part,
    #[error("{0} cannot be read: {1}")]
    Unread(String, std::io::Error),
}

/// The files below the folder for results.
pub struct Resources {
    root: PathBuf,
}

impl Resources {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The template for all parts of all files.
    pub fn template() -> ResourceTemplate {
        ResourceTemplate::new("mneme:///{+path}{?offset,limit}", "results")
            .with_description("A part of a file of results; _meta has its offset, the size, and the next offset")
    }

    /// The files in a folder, by name.
    pub fn of(&self, folder: &Path) -> Vec<Resource> {
        let mut found = Vec::new();
        self.collect(folder, DEEPEST, &mut found);
        found.truncate(MOST_FILES);
        found
    }

    fn collect(&self, folder: &Path, depth: usize, found: &mut Vec<Resource>) {
        let mut entries: Vec<_> = folder.read_dir().into_iter().flatten().flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Some(name) = path.strip_prefix(&self.root).ok().and_then(Path::to_str).filter(|name| is_plain(name))
            else {
                continue;
            };
            match entry.metadata() {
                Ok(data) if data.is_dir() && depth > 1 => self.collect(&path, depth - 1, found),
                Ok(data) if data.is_file() => {
                    let resource = Resource::new(format!("{SCHEME}{name}"), name).with_size(data.len());
                    found.push(resource.with_mime_type(kind(&path)));
                }
                _ => {}
            }
        }
    }

    /// Reads a part of a file.
    pub fn read(&self, uri: &str) -> Result<ReadResourceResult, ResourceError> {
        let unknown = || ResourceError::Unknown(uri.chars().take(200).collect());
        let rest = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut offset, mut limit) = (0, USUAL);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let number = |text: &str| text.parse::<u64>().map_err(|_| ResourceError::Part);
            match pair.split_once('=') {
                Some(("offset", text)) => offset = number(text)?,
                Some(("limit", text)) => limit = number(text)?,
                _ => return Err(ResourceError::Part),
            }
        }
        if !(1..=MOST).contains(&limit) {
            return Err(ResourceError::Part);
        }
        // A link may lead outside, or to a file that has its own name.
        let path = Some(name)
            .filter(|name| is_plain(name) && is_of_job(name))
            .map(|name| self.root.join(name))
            .ok_or_else(unknown)?;
        if path.canonicalize().ok().as_ref() != Some(&path) {
            return Err(unknown());
        }
        let unread = |error| ResourceError::Unread(name.to_owned(), error);
        let mut file = regular::open(&path).map_err(unread)?;
        let size = file.metadata().map_err(unread)?.len();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset.min(size))).map_err(unread)?;
        file.take(limit).read_to_end(&mut bytes).map_err(unread)?;
        let (contents, length) = contents(uri, &path, bytes);
        let next = offset.saturating_add(length);
        let mut meta = json!({"offset": offset, "size": size});
        if next < size {
            meta["next_offset"] = next.into();
        }
        let meta: JsonObject = meta.as_object().cloned().unwrap_or_default();
        Ok(ReadResourceResult::new(vec![contents.with_meta(MetaObject(meta))]))
    }
}

/// The contents as text if they are, without an incomplete character at the end, and their length in the file.
fn contents(uri: &str, path: &Path, bytes: Vec<u8>) -> (ResourceContents, u64) {
    let whole = match std::str::from_utf8(&bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    match whole.filter(|text| !text.contains('\0') && (!text.is_empty() || bytes.is_empty())) {
        Some(text) => (ResourceContents::text(text, uri).with_mime_type(kind(path)), text.len() as u64),
        None => {
            let blob = ResourceContents::blob(STANDARD.encode(&bytes), uri);
            (blob.with_mime_type("application/octet-stream"), bytes.len() as u64)
        }
    }
}

/// Whether a name needs no escapes in a URI and stays below its folder.
fn is_plain(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_fine))
}

/// Whether a file is in the folder of a job, which has the name of its tool and a number.
fn is_of_job(name: &str) -> bool {
    let job = name.split_once('/').and_then(|(folder, _)| folder.rsplit_once('-'));
    job.is_some_and(|(tool, number)| {
        ENTRIES.iter().any(|entry| entry.name == tool) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(std::ffi::OsStr::to_str) {
        Some("json") => "application/json",
        Some("html") => "text/html",
        Some("csv") => "text/csv",
        Some("bc" | "cubin" | "hsaco" | "o") => "application/octet-stream",
        _ => "text/plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(result: ReadResourceResult) -> (String, serde_json::Value) {
        let value = serde_json::to_value(result).unwrap();
        let contents = &value["contents"][0];
        (contents["text"].as_str().or(contents["blob"].as_str()).unwrap().to_owned(), contents["_meta"].clone())
    }

    #[test]
    fn files_are_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("tune-1")).unwrap();
        std::fs::write(root.join("tune-1/a.txt"), "aäb").unwrap();
        std::fs::write(root.join("tune-1/b.o"), b"\x7fELF\xff").unwrap();
        std::fs::write(root.join("tune-1/.hidden"), "").unwrap();
        std::fs::create_dir(root.join("rec-1")).unwrap();
        std::fs::write(root.join("rec-1/a.txt"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("tune-1/link")).unwrap();
        let resources = Resources::new(root.clone());
        let listed = resources.of(&root.join("tune-1"));
        let names: Vec<&str> = listed.iter().map(|resource| &*resource.uri).collect();
        assert_eq!(names, ["mneme:///tune-1/a.txt", "mneme:///tune-1/b.o"]);

        let (text, meta) = parts(resources.read("mneme:///tune-1/a.txt?limit=2").unwrap());
        assert_eq!((&*text, &meta["next_offset"]), ("a", &json!(1)));
        let (text, meta) = parts(resources.read("mneme:///tune-1/a.txt?offset=1").unwrap());
        assert_eq!((&*text, &meta["size"], meta.get("next_offset")), ("äb", &json!(4), None));
        assert_eq!(parts(resources.read("mneme:///tune-1/a.txt?offset=99").unwrap()).0, "");
        assert_eq!(parts(resources.read("mneme:///tune-1/b.o").unwrap()).0, "f0VMRv8=");
        for uri in [
            "mneme:///tune-1/link", "mneme:///../etc", "mneme:///tune-1", "mneme:///", "mneme:///tune-1//a.txt",
            "file:///etc/passwd", "mneme:////etc/passwd", "mneme:///tune-1/a.txt?limit=0", "mneme:///tune-1/.hidden",
            "mneme:///rec-1/a.txt", "mneme:///tune-1/a.txt?limit=999999999", "mneme:///tune-1/a.txt?offset=-1",
            "mneme:///tune-1/%2e%2e/a",
        ] {
            assert!(resources.read(uri).is_err(), "{uri}");
        }
    }
}
