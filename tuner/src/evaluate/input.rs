//! Reads candidates: files that the command line names, and JSON lines.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use mneme_model::configuration::Changes;
use mneme_model::evaluation::{Candidate, CandidateId};
use mneme_model::hash::chunk_id;
use mneme_system::files::trust;
use serde_json::Value;

use super::error::EvaluateError;
use super::options::EvaluateOptions;
use crate::interrupt;

/// The longest line, bytes; as in the protocol of `mneme-replay serve`.
const LONGEST: usize = 64 << 20;

/// A candidate to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub id: CandidateId,
    pub given: Given,
    pub config: Changes,
    /// Options for the compiler of a source.
    pub options: Vec<String>,
}

/// The code of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// The recorded code, or the source of `--source-base` if there are options for its compiler.
    Recorded,
    Source(String),
    Diff(String),
    Blocks(String),
    /// Text or bitcode.
    Ir(Vec<u8>),
    Ptx(String),
}

impl Request {
    /// A checksum of everything that it asks for. `base` is the source that it may change.
    pub fn digest(&self, base: &str) -> String {
        let (kind, text) = match &self.given {
            Given::Recorded => ("recorded", &[][..]),
            Given::Source(text) => ("source", text.as_bytes()),
            Given::Diff(text) => ("diff", text.as_bytes()),
            Given::Blocks(text) => ("blocks", text.as_bytes()),
            Given::Ir(bytes) => ("ir", &bytes[..]),
            Given::Ptx(text) => ("ptx", text.as_bytes()),
        };
        let changes_base = matches!(self.given, Given::Diff(_) | Given::Blocks(_) | Given::Recorded);
        let base = if changes_base { base } else { "" };
        let head = serde_json::json!([kind, self.config, self.options, base]).to_string();
        chunk_id(&[head.as_bytes(), text].concat()).to_string()
    }
}

impl TryFrom<Candidate> for Request {
    type Error = &'static str;

    fn try_from(candidate: Candidate) -> Result<Self, Self::Error> {
        let Candidate { id, source, diff, blocks, ir, ptx, config, options } = candidate;
        let all = [
            source.map(Given::Source),
            diff.map(Given::Diff),
            blocks.map(Given::Blocks),
            ir.map(|text| Given::Ir(text.into_bytes())),
            ptx.map(Given::Ptx),
        ];
        let mut given = all.into_iter().flatten();
        let first = given.next().unwrap_or(Given::Recorded);
        if given.next().is_some() {
            return Err("it has several of source, diff, blocks, ir and ptx, and at most one can be judged");
        }
        Ok(Self { id, given: first, config, options })
    }
}

/// A line of input that is not a candidate.
#[derive(Debug)]
pub struct Malformed {
    pub id: Option<CandidateId>,
    pub reason: String,
}

/// All candidates, in the order of the command line and of lines.
pub struct Input {
    waiting: VecDeque<Result<Request, Malformed>>,
    stream: Option<Stream>,
}

impl Input {
    /// Reads the files of the command line, and opens the stream of lines.
    pub fn open(options: &EvaluateOptions) -> Result<Self, EvaluateError> {
        let mut waiting = VecDeque::new();
        let mut stream = options.candidates.clone();
        let named = [("cu", &options.source), ("ll", &options.ir), ("ptx", &options.ptx), ("json", &options.config)];
        let named = named.into_iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (Some(kind), path)));
        for (kind, path) in options.files.iter().map(|path| (None, path)).chain(named) {
            let kind = kind.or_else(|| path.extension()?.to_str()).unwrap_or_default();
            if kind == "jsonl" && stream.is_none() {
                stream = Some(path.clone());
                continue;
            }
            waiting.push_back(Ok(read(path, kind)?));
        }
        if stream.is_none() && waiting.is_empty() {
            stream = Some("-".into());
        }
        Ok(Self { waiting, stream: stream.as_deref().map(Stream::open).transpose()? })
    }

    /// The next candidates, at most `most`; empty at the end of all input, or at this time. Waits for the first one
    /// only.
    pub fn next(
        &mut self,
        most: usize,
        end: Option<Instant>,
    ) -> Result<Vec<Result<Request, Malformed>>, EvaluateError> {
        while self.waiting.is_empty()
            && let Some(stream) = &mut self.stream
        {
            match stream.lines(most, end)? {
                Some(lines) => self.waiting.extend(lines),
                None => self.stream = None,
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
        let count = most.min(self.waiting.len());
        Ok(self.waiting.drain(..count).collect())
    }
}

fn read(path: &Path, kind: &str) -> Result<Request, EvaluateError> {
    let wrong = |what: &str| EvaluateError::Usage(format!("{} {what}", path.display()));
    let bytes = trust::read(path).map_err(|source| EvaluateError::Unread { path: path.into(), source })?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| wrong("is not text"));
    let mut config = Changes::default();
    let given = match kind {
        "cu" | "cuh" | "cpp" | "cc" | "hip" => Given::Source(text(bytes)?),
        "diff" | "patch" => Given::Diff(text(bytes)?),
        "ll" | "bc" => Given::Ir(bytes),
        "ptx" => Given::Ptx(text(bytes)?),
        "json" => {
            config = serde_json::from_slice(&bytes).map_err(|error| wrong(&format!("is no configuration: {error}")))?;
            Given::Recorded
        }
        _ => return Err(wrong("has no ending of a candidate; name it with --source, --ir, --ptx or --config")),
    };
    Ok(Request { id: CandidateId::Text(path.display().to_string()), given, config, options: Vec::new() })
}

/// Candidates as lines of JSON.
struct Stream {
    file: File,
    bytes: Vec<u8>,
    /// Lines before `bytes`.
    number: usize,
    at_end: bool,
}

impl Stream {
    fn open(path: &Path) -> Result<Self, EvaluateError> {
        let file = if path == Path::new("-") {
            interrupt::end_with_reader();
            std::io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            trust::open(path)
        };
        let file = file.map_err(|source| EvaluateError::Unread { path: path.into(), source })?;
        Ok(Self { file, bytes: Vec::new(), number: 0, at_end: false })
    }

    /// The next lines; `None` at the end. Empty if this time comes first.
    fn lines(
        &mut self,
        most: usize,
        end: Option<Instant>,
    ) -> Result<Option<Vec<Result<Request, Malformed>>>, EvaluateError> {
        let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        while !self.at_end && count(&self.bytes) < most {
            // After the first line, only what has arrived already.
            let until = if count(&self.bytes) == 0 { end } else { Some(Instant::now()) };
            if !interrupt::wait_until(self.file.as_fd(), until)? {
                break;
            }
            self.fill()?;
        }
        if self.at_end && self.bytes.is_empty() {
            return Ok(None);
        }
        let mut found = Vec::new();
        while let Some(line) = self.take_line() {
            self.number += 1;
            if !line.trim_ascii().is_empty() {
                found.push(parse(&line, self.number));
            }
        }
        Ok(Some(found))
    }

    fn fill(&mut self) -> Result<(), EvaluateError> {
        let mut buffer = vec![0; 1 << 16];
        match self.file.read(&mut buffer) {
            Ok(0) => self.at_end = true,
            Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(EvaluateError::Unread { path: "the list of candidates".into(), source }),
        }
        if self.bytes.len() > LONGEST {
            let line = self.number + 1;
            return Err(EvaluateError::Usage(format!("line {line} of the candidates is longer than {LONGEST} bytes")));
        }
        Ok(())
    }

    /// The first line. Only the last one may lack its end.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        match self.bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => Some(self.bytes.drain(..=end).collect()),
            None if self.at_end && !self.bytes.is_empty() => Some(std::mem::take(&mut self.bytes)),
            None => None,
        }
    }
}

fn parse(line: &[u8], number: usize) -> Result<Request, Malformed> {
    let read = serde_json::from_slice::<Candidate>(line).map_err(|error| error.to_string());
    read.and_then(|candidate| Request::try_from(candidate).map_err(str::to_owned)).map_err(|reason| {
        let value: Value = serde_json::from_slice(line).unwrap_or_default();
        let id = serde_json::from_value(value["id"].clone()).ok();
        Malformed { id, reason: format!("line {number} is not a candidate: {reason}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(text: &str) -> Vec<Result<Request, Malformed>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("candidates.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut input = Input { waiting: VecDeque::new(), stream: Some(Stream::open(&path).unwrap()) };
        let mut found = Vec::new();
        loop {
            let next = input.next(2, None).unwrap();
            if next.is_empty() {
                return found;
            }
            assert!(next.len() <= 2);
            found.extend(next);
        }
    }

    #[test]
    fn every_line_is_a_candidate_or_is_named() {
        let long = "x".repeat(200_000);
        let text = format!(
            "{{\"id\": \"a\", \"source\": \"{long}\"}}\n\n{{\"id\": 2}}\nnonsense\n{{\"id\": \"b\", \"ir\": \"\", \"ptx\": \"\"}}\n{{\"id\": \"c\"}}"
        );
        let found = stream(&text);
        let ids: Vec<String> = found.iter().flatten().map(|request| request.id.to_string()).collect();
        assert_eq!(ids, ["a", "2", "c"]);
        let malformed: Vec<&Malformed> = found.iter().filter_map(|it| it.as_ref().err()).collect();
        assert_eq!((malformed[0].id.is_none(), malformed[1].id.as_ref().unwrap().to_string().as_str()), (true, "b"));
        assert!(malformed[0].reason.contains("line 4") && malformed[1].reason.contains("several"), "{malformed:?}");
        assert!(stream("").is_empty() && stream("\n\n").is_empty());
    }

    #[test]
    fn a_digest_tells_candidates_apart() {
        let given = |line: &str| Request::try_from(serde_json::from_str::<Candidate>(line).unwrap()).unwrap();
        let lines = [
            r#"{"id": 1}"#,
            r#"{"id": 1, "source": "x"}"#,
            r#"{"id": 1, "diff": "x"}"#,
            r#"{"id": 1, "source": "x", "options": ["-DN"]}"#,
            r#"{"id": 1, "source": "x", "config": {"maxnreg": 3}}"#,
        ];
        let digests: std::collections::BTreeSet<_> = lines.iter().map(|line| given(line).digest("base")).collect();
        assert_eq!(digests.len(), lines.len());
        assert_ne!(given(lines[2]).digest("base"), given(lines[2]).digest("other"));
        assert_eq!(given(lines[1]).digest("base"), given(&lines[1].replace('1', "2")).digest("other"));
    }
}
