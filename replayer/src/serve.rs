//! `mneme-replay serve`: configurations come and results go as JSON lines (`mneme_core::protocol`).

use std::io::{Stdin, Write};
use std::os::fd::AsFd;

use mneme_core::exit;
use mneme_core::protocol::{self, Hello, Reply, Request};

use crate::supervisor::{Client, Event, Fatal, Job, Scene, Supervisor};

/// Bytes that a request may have: more than any pipeline needs, and little enough for a line without an end to do no harm.
const LONGEST_LINE: usize = 4 << 20;

/// Serves until the end of input; returns the exit status.
pub fn run(scene: &Scene) -> Result<i32, Fatal> {
    let mut supervisor = Supervisor::start(scene)?;
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let output = Some(stdout.as_fd());
    let device = loop {
        match supervisor.next(Client { input: None, output })? {
            Event::Ready(device) => break device,
            Event::Unheard => return Err(unheard()),
            Event::Finished { .. } | Event::Input => {}
        }
    };
    let recorded = scene.subject.recorded_configuration();
    say(&Reply::Hello(Box::new(Hello {
        protocol: protocol::VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        kernel: scene.subject.kernel.kernel_name.clone(),
        grid: recorded.grid,
        block: recorded.block,
        shared_mem: recorded.shared_mem,
        recorded: recorded.clone(),
        device: device.name,
        driver: device.driver,
        devices: vec![device.ordinal],
    })))?;
    let mut input = Some(Input::default());
    while input.is_some() || supervisor.outstanding() > 0 {
        match supervisor.next(Client { input: input.is_some().then(|| stdin.as_fd()), output })? {
            Event::Ready(_) => {}
            // Without this, a client that was killed would be worked for until the next result.
            Event::Unheard => return Err(unheard()),
            Event::Finished { id, result, .. } => say(&Reply::Result { id, result })?,
            Event::Input => {
                let Some(lines) = &mut input else { continue };
                let open = lines.fill(&stdin)?;
                while let Some(request) = lines.next()? {
                    let Request::Submit(submission) = request else {
                        return Err(Fatal::new(exit::BAD_USAGE, "only submissions are understood"));
                    };
                    let configuration = submission.config.apply(&recorded).map_err(|error| Fatal::new(exit::BAD_USAGE, error))?;
                    let (iterations, warmup) = (submission.iterations.unwrap_or(3), submission.warmup.unwrap_or(2));
                    supervisor.submit(Job { id: submission.id, configuration, iterations, warmup });
                }
                if !open {
                    lines.end()?;
                    input = None;
                }
            }
        }
    }
    // Configurations that could not be started have their events queued still.
    while let Some(event) = supervisor.pending_event() {
        if let Event::Finished { id, result, .. } = event {
            say(&Reply::Result { id, result })?;
        }
    }
    supervisor.leave();
    Ok(exit::VERIFIED)
}

/// Tells the client why the server ends.
pub fn report(fatal: &Fatal) {
    // The client may be gone already; the exit status says the same.
    let _ = say(&Reply::Fatal { status: fatal.status, error: fatal.error.clone() });
}

fn say(reply: &Reply) -> Result<(), Fatal> {
    let mut line = serde_json::to_vec(reply).expect("plain data serialises");
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).map_err(|_| unheard())
}

fn unheard() -> Fatal {
    Fatal::new(exit::INTERNAL, "the client has closed its end")
}

/// Standard input, cut into requests.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
}

impl Input {
    /// Reads what is there; false at the end of input.
    fn fill(&mut self, stdin: &Stdin) -> Result<bool, Fatal> {
        let mut buffer = [0; 64 * 1024];
        // The descriptor itself is read: what a buffered reader holds back, poll would not announce.
        match nix::unistd::read(stdin, &mut buffer) {
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                Ok(count > 0)
            }
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => Ok(true),
            Err(error) => Err(Fatal::new(exit::INTERNAL, format!("standard input cannot be read: {error}"))),
        }
    }

    fn next(&mut self) -> Result<Option<Request>, Fatal> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let rest = self.bytes.split_off(end + 1);
            let line = std::mem::replace(&mut self.bytes, rest);
            if !line.trim_ascii().is_empty() {
                return parse(&line).map(Some);
            }
        }
        if self.bytes.len() > LONGEST_LINE {
            return Err(Fatal::new(exit::BAD_USAGE, format!("a request has more than {LONGEST_LINE} bytes")));
        }
        Ok(None)
    }

    /// Whether the input ended with a line's end.
    fn end(&self) -> Result<(), Fatal> {
        if self.bytes.trim_ascii().is_empty() { Ok(()) } else { Err(Fatal::new(exit::BAD_USAGE, "the last request is cut short")) }
    }
}

fn parse(line: &[u8]) -> Result<Request, Fatal> {
    serde_json::from_slice(line).map_err(|error| Fatal::new(exit::BAD_USAGE, format!("a request cannot be understood: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::protocol::Submission;

    fn submit(id: u64) -> Request {
        Request::Submit(Box::new(Submission { id, iterations: Some(3), priority: -1, ..Submission::default() }))
    }

    #[test]
    fn requests_survive_the_wire_however_they_are_cut() {
        let mut wire = Vec::new();
        for id in 0..3 {
            wire.extend(serde_json::to_vec(&submit(id)).unwrap());
            wire.extend(b"\n\n");
        }
        for cut in [1, 7, wire.len()] {
            let mut input = Input::default();
            let mut found = Vec::new();
            for part in wire.chunks(cut) {
                input.bytes.extend_from_slice(part);
                while let Some(request) = input.next().unwrap() {
                    found.push(request);
                }
            }
            assert_eq!(found, (0..3).map(submit).collect::<Vec<_>>(), "cut at {cut}");
            assert!(input.end().is_ok());
        }
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        let mut input = Input { bytes: b"{\"type\":\"dance\"}\n".to_vec() };
        assert_eq!(input.next().unwrap_err().status, exit::BAD_USAGE);
        assert!(Input { bytes: b"{\"type\"".to_vec() }.end().is_err());
        assert!(Input { bytes: vec![b'x'; LONGEST_LINE] }.next().unwrap().is_none());
        assert_eq!(Input { bytes: vec![b'x'; LONGEST_LINE + 1] }.next().unwrap_err().status, exit::BAD_USAGE);
    }
}
