//! Any bytes as a client of the NBD server: requests inside the drive, bounded memory, and termination.
//!
//! The first byte is odd if the handshake is done beforehand. Each further byte that is a multiple of 32 ends
//! a piece, like a socket read.

#![no_main]

use std::io::IoSlice;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use strobe_serve::Session as _;
use strobe_serve::nbd::{Export, OUTPUT_BYTES_MAX, Op, PAYLOAD_BYTES_MAX, Session};

const SECTORS: u64 = 64;
/// Client flags, structured replies, the context base:allocation, and GO.
const HELLO: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation\
IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";

fuzz_target!(|input: &[u8]| {
    let [is_ready, input @ ..] = input else { return };
    let export = Export {
        name: "fuzz".into(),
        description: String::new(),
        sectors: SECTORS,
        block_bytes: 4096,
        read_only: is_ready & 2 != 0,
    };
    let mut session = Session::new(Arc::new(export));
    if is_ready & 1 != 0 {
        say(&mut session, HELLO);
        assert!(session.is_ready());
    }
    for piece in input.split_inclusive(|byte| byte % 32 == 0) {
        say(&mut session, piece);
    }
});

fn say(session: &mut Session, mut bytes: &[u8]) {
    while !bytes.is_empty() && !session.is_full() {
        let free_space = session.free_space();
        assert!(free_space.len() <= 2 * PAYLOAD_BYTES_MAX as usize);
        let count = free_space.len().min(bytes.len());
        free_space[..count].copy_from_slice(&bytes[..count]);
        session.received(count);
        bytes = &bytes[count..];
        serve(session);
    }
}

fn serve(session: &mut Session) {
    while let Some(request) = session.next_request() {
        let (slot, op, range) = (request.slot, request.op, request.range);
        assert!(range.lba.get() + u64::from(range.sectors) <= SECTORS);
        assert!(op == Op::Flush || range.sectors > 0);
        if let Op::Write { .. } = op {
            assert_eq!(request.data.len() as u64, range.bytes());
        }
        match op {
            Op::Status { .. } => session.answer_status(slot, &[(range.sectors, true)]),
            Op::Read => session.answer(slot, Ok(vec![7; range.bytes() as usize])),
            _ => session.answer(slot, Ok(Vec::new())),
        }
        assert!(session.output_bytes() <= 2 * OUTPUT_BYTES_MAX);
        let mut parts = [IoSlice::new(&[]); 4];
        let count = session.output(&mut parts);
        let sent = parts[..count].iter().map(|part| part.len()).sum();
        session.sent(sent);
    }
    assert_eq!(session.in_flight(), 0);
}
