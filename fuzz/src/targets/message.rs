//! The target for messages between processes.
//!
//! One of the two may run a program that is not trusted.

use mneme_sandbox::frame::{self, Inbox};
use serde_json::{Value, json};

use super::{FuzzTarget, nothing};

pub const MESSAGE: FuzzTarget = FuzzTarget { name: "message", seeds, seal: nothing, run };

fn seeds() -> Vec<Vec<u8>> {
    let mut stream = Vec::new();
    for (message, blob) in [(json!({"Built": {"registers": 32}}), &b"code"[..]), (json!([1, "two"]), b"")] {
        frame::write(&mut stream, &message, blob).expect("a message can be written");
    }
    let first: Option<(Value, _)> = frame::read(&mut &stream[..]).expect("the seed is well-formed");
    assert!(first.is_some_and(|(_, blob)| blob == b"code"));
    vec![stream]
}

fn run(input: &[u8]) {
    let mut inbox = Inbox::default();
    for part in input.chunks(7) {
        inbox.push(part);
        while let Ok(Some(_)) = inbox.pop::<Value>() {}
    }
    let mut stream = input;
    while let Ok(Some(_)) = frame::read::<Value>(&mut stream) {}
}
