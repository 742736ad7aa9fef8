//! Messages between the supervisor and its children: a line of data and a blob, each with its length before it.
//!
//! ```text
//! u32 length of the JSON, u64 length of the blob, JSON, blob
//! ```

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

const HEADER: usize = 12;

/// Writes one message.
pub fn write(to: &mut impl Write, message: &impl Serialize, blob: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    let mut frame = Vec::with_capacity(HEADER + json.len() + blob.len());
    frame.extend_from_slice(&(json.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(blob.len() as u64).to_le_bytes());
    frame.extend_from_slice(&json);
    frame.extend_from_slice(blob);
    to.write_all(&frame)
}

/// Waits for one message; `None` at the end of the stream.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut inbox = Inbox::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let wanted = inbox.missing().min(buffer.len());
        match from.read(&mut buffer[..wanted])? {
            0 if inbox.is_empty() => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => inbox.push(&buffer[..count]),
        }
        if let Some(message) = inbox.pop()? {
            return Ok(Some(message));
        }
    }
}

/// Collects the bytes of messages as they arrive.
#[derive(Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the first message, if all of it is here.
    pub fn pop<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<u8>)>> {
        if self.missing() > 0 {
            return Ok(None);
        }
        let Some((json, blob)) = self.lengths() else { return Ok(None) };
        let blob_start = HEADER + json;
        let message = serde_json::from_slice(&self.bytes[HEADER..blob_start])?;
        let rest = self.bytes.split_off(blob_start + blob);
        let mut whole = std::mem::replace(&mut self.bytes, rest);
        whole.drain(..blob_start);
        Ok(Some((message, whole)))
    }

    /// Bytes that the first message still lacks; those of its header as long as that is not complete.
    fn missing(&self) -> usize {
        match self.lengths() {
            None => HEADER - self.bytes.len(),
            Some((json, blob)) => (HEADER + json + blob).saturating_sub(self.bytes.len()),
        }
    }

    fn lengths(&self) -> Option<(usize, usize)> {
        let (json, rest) = self.bytes.split_first_chunk::<4>()?;
        let (blob, _) = rest.split_first_chunk::<8>()?;
        Some((u32::from_le_bytes(*json) as usize, u64::from_le_bytes(*blob) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_however_they_are_cut() {
        let mut stream = Vec::new();
        write(&mut stream, &"first", b"blob").unwrap();
        write(&mut stream, &"second", b"").unwrap();
        for cut in 1..stream.len() {
            let mut inbox = Inbox::default();
            let mut found = Vec::new();
            for part in stream.chunks(cut) {
                inbox.push(part);
                while let Some((text, blob)) = inbox.pop::<String>().unwrap() {
                    found.push((text, blob));
                }
            }
            assert_eq!(found, [("first".to_owned(), b"blob".to_vec()), ("second".to_owned(), vec![])], "cut at {cut}");
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn reading_tells_the_end_from_a_cut() {
        let mut stream = Vec::new();
        write(&mut stream, &7, b"xyz").unwrap();
        let mut reader = &stream[..];
        assert_eq!(read::<u32>(&mut reader).unwrap(), Some((7, b"xyz".to_vec())));
        assert_eq!(read::<u32>(&mut reader).unwrap(), None);
        assert!(read::<u32>(&mut &stream[..stream.len() - 1]).is_err());
    }
}
