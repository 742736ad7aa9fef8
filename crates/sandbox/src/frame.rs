//! Frames of the messages between a program and its children.
//!
//! A message is JSON and a blob, preceded by both lengths.
//!
//! ```text
//! u32 length of the JSON, u64 length of the blob, JSON, blob
//! ```

use std::io::{self, Read, Write};

use nix::poll::PollFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

const HEADER: usize = 12;

/// Writes one message.
pub fn write(to: &mut impl Write, message: &impl Serialize, blob: &[u8]) -> io::Result<()> {
    let mut frame = Vec::new();
    append(&mut frame, message, blob)?;
    to.write_all(&frame)
}

fn append(frames: &mut Vec<u8>, message: &impl Serialize, blob: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    frames.reserve(HEADER + json.len() + blob.len());
    frames.extend_from_slice(&(json.len() as u32).to_le_bytes());
    frames.extend_from_slice(&(blob.len() as u64).to_le_bytes());
    frames.extend_from_slice(&json);
    frames.extend_from_slice(blob);
    Ok(())
}

/// Waits for one message; `None` at the end of the stream.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    Inbox::default().wait(from)
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

    /// Reads the available bytes; false at the end of the stream.
    ///
    /// # Errors
    /// The system's error.
    pub fn receive(&mut self, from: &mut impl Read) -> io::Result<bool> {
        let mut buffer = [0; 64 * 1024];
        match from.read(&mut buffer) {
            Ok(count) => {
                self.push(&buffer[..count]);
                Ok(count > 0)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Waits for the first message, and reads nothing beyond it; `None` at the end of the stream.
    ///
    /// # Errors
    /// The system's error, or an end in the middle of a message.
    pub fn wait<T: DeserializeOwned>(&mut self, from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(message) = self.pop()? {
                return Ok(Some(message));
            }
            let wanted = self.missing()?.min(buffer.len());
            match from.read(&mut buffer[..wanted]) {
                Ok(0) if self.is_empty() => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.push(&buffer[..count]),
                // Linux never restarts a read of a socket that has a time limit.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the first message, if it is complete.
    pub fn pop<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<u8>)>> {
        if self.missing()? > 0 {
            return Ok(None);
        }
        let Some((blob_start, end)) = self.lengths()? else { return Ok(None) };
        let message = serde_json::from_slice(&self.bytes[HEADER..blob_start])?;
        let rest = self.bytes.split_off(end);
        let mut whole = std::mem::replace(&mut self.bytes, rest);
        whole.drain(..blob_start);
        Ok(Some((message, whole)))
    }

    /// The number of bytes missing from the first message; while its header is incomplete, from the header.
    fn missing(&self) -> io::Result<usize> {
        Ok(match self.lengths()? {
            None => HEADER - self.bytes.len(),
            Some((_, end)) => end.saturating_sub(self.bytes.len()),
        })
    }

    /// The start and end of the first message's blob, from the message's start.
    fn lengths(&self) -> io::Result<Option<(usize, usize)>> {
        let Some((json, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
        let Some((blob, _)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let blob_start = HEADER + u32::from_le_bytes(*json) as usize;
        let end = usize::try_from(u64::from_le_bytes(*blob)).ok().and_then(|blob| blob_start.checked_add(blob));
        let end =
            end.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a message is longer than any memory"))?;
        Ok(Some((blob_start, end)))
    }
}

/// Messages queued for a non-blocking stream: two processes that each block until the other reads would deadlock.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Written bytes at the front.
    written: usize,
}

impl Outbox {
    pub fn push(&mut self, message: &impl Serialize, blob: &[u8]) -> io::Result<()> {
        append(&mut self.bytes, message, blob)
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The events to wait for: reading, and writing if bytes are queued.
    pub fn interest(&self) -> PollFlags {
        if self.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLIN | PollFlags::POLLOUT }
    }

    /// Writes as much as the stream accepts.
    pub fn flush(&mut self, to: &mut impl Write) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match to.write(&self.bytes[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.written = 0;
        Ok(())
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

    #[test]
    fn a_message_that_no_memory_holds_is_an_error() {
        for blob in [u64::MAX, u64::MAX - HEADER as u64 + 1] {
            let header = [&2u32.to_le_bytes()[..], &blob.to_le_bytes(), b"{}"].concat();
            assert_eq!(read::<()>(&mut &header[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_read_that_a_signal_interrupts_is_repeated() {
        struct Interrupted<'a>(&'a [u8], bool);
        impl Read for Interrupted<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.1 = !self.1;
                if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(buffer) }
            }
        }
        let mut stream = Vec::new();
        write(&mut stream, &7, b"xyz").unwrap();
        let mut reader = Interrupted(&stream, false);
        assert_eq!(read::<u32>(&mut reader).unwrap(), Some((7, b"xyz".to_vec())));
        assert_eq!(read::<u32>(&mut reader).unwrap(), None);
    }

    #[test]
    fn what_a_stream_does_not_take_yet_waits() {
        let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let blob = vec![7; 8 << 20];
        let mut outbox = Outbox::default();
        outbox.push(&"large", &blob).unwrap();
        outbox.flush(&mut ours).unwrap();
        assert!(!outbox.is_empty(), "no socket holds that much");
        let reader = std::thread::spawn(move || read::<String>(&mut theirs).unwrap());
        while !outbox.is_empty() {
            outbox.flush(&mut ours).unwrap();
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), Some(("large".to_owned(), blob)));
    }
}
