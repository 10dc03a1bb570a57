//! Shutdown of a server: submitted requests complete, however long they take.

#![cfg(target_os = "linux")]

mod common;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Duration;

use strobe_serve::{Address, Pace, Protocol, Sockets};
use strobe_types::StopFlag;

/// Each read takes longer than a server waits.
const READS: u64 = 10;
const UNIT_BYTES: u64 = 4096;

fn client(socket: &Path, has_sent: &AtomicBool) -> usize {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(&[&[0, 0, 0, 3][..], b"IHAVEOPT\0\0\0\x01\0\0\0\0"].concat()).expect("an option");
    stream.read_exact(&mut [0; 10]).expect("size and flags");
    let request = |command: u16, unit: u64, bytes: u64| {
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0], &command.to_be_bytes(), &[7; 8]].concat();
        [&head[..], &(unit * UNIT_BYTES).to_be_bytes(), &(bytes as u32).to_be_bytes()].concat()
    };
    let mut ask = |message: &[u8]| {
        stream.write_all(message).expect("it hears");
        stream.read_exact(&mut [0; 16]).expect("an answer");
    };
    for unit in 0..READS {
        ask(&[request(1, unit, UNIT_BYTES), vec![1; UNIT_BYTES as usize]].concat());
    }
    ask(&request(3, 0, 0));
    let reads: Vec<_> = (0..READS).flat_map(|unit| request(0, unit, UNIT_BYTES)).collect();
    stream.write_all(&reads).expect("it hears");
    has_sent.store(true, Ordering::Relaxed);
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).expect("an end");
    answers.len()
}

#[test]
fn requests_that_the_drive_has_are_answered_before_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s");
    let sockets =
        Sockets { addresses: vec![(Address::Unix(socket.clone()), Protocol::Nbd)], ..Sockets::default() };
    let mut server = common::server("read_ns = 100000000000", Pace::Model, &sockets);
    let (has_sent, mut turns) = (AtomicBool::new(false), 0);
    let bytes = scope(|threads| {
        let client = threads.spawn(|| client(&socket, &has_sent));
        // One more turn reads the requests.
        let mut is_over = || {
            turns += u32::from(has_sent.load(Ordering::Relaxed));
            turns > 2 || client.is_finished()
        };
        server.serve(&StopFlag::default(), &mut is_over).expect("it serves");
        client.join().expect("the client is done")
    });
    assert_eq!(bytes as u64, READS * (16 + UNIT_BYTES), "all answers");
}
