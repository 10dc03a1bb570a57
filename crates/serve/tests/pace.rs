//! `--pace model`: latencies at a client, compared with the model's.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, reason = "the client measures real time")]

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::scope;
use std::time::Instant;

use strobe_serve::{Address, Pace, Protocol, Sockets};
use strobe_types::StopFlag;

/// A read takes 500 µs of array time.
const NAND: &str = "read_ns = 500000\nprogram_ns = 100000";
const UNIT_BYTES: u64 = 4096;
const UNITS: u64 = 100;
/// Other programs delay completions on a busy machine.
const ATTEMPTS: usize = 60;

/// Mean and 99th percentile, in ns.
type Latency = [f64; 2];

/// The client polls for an answer, because a sleeping client would add its wake-up time.
fn client(socket: &Path) -> Latency {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(&[&[0, 0, 0, 3][..], b"IHAVEOPT\0\0\0\x01\0\0\0\0"].concat()).expect("an option");
    stream.read_exact(&mut [0; 10]).expect("size and flags");
    let mut request = |command: u16, unit: u64, bytes: u64, data: &[u8], answer: &mut [u8]| {
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0], &command.to_be_bytes(), &[7; 8]].concat();
        let range = [&(unit * UNIT_BYTES).to_be_bytes()[..], &(bytes as u32).to_be_bytes()].concat();
        let message = [&head[..], &range, data].concat();
        let start = Instant::now();
        stream.write_all(&message).expect("it hears");
        stream.set_nonblocking(true).expect("set");
        let mut received = 0;
        while received < answer.len() {
            match stream.read(&mut answer[received..]) {
                Ok(0) => panic!("it hung up"),
                Ok(bytes) => received += bytes,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        stream.set_nonblocking(false).expect("set");
        assert_eq!(answer[4..8], [0; 4], "no error");
        start.elapsed().as_nanos() as f64
    };
    for unit in 0..UNITS {
        request(1, unit, UNIT_BYTES, &[1; UNIT_BYTES as usize], &mut [0; 16]);
    }
    request(3, 0, 0, &[], &mut [0; 16]);
    let mut seen: Vec<f64> = (0..UNITS)
        .map(|unit| request(0, unit, UNIT_BYTES, &[], &mut [0; 16 + UNIT_BYTES as usize]))
        .collect();
    seen.sort_by(f64::total_cmp);
    [seen.iter().sum::<f64>() / UNITS as f64, seen[UNITS as usize * 99 / 100 - 1]]
}

fn measure() -> (Latency, Latency) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s");
    let sockets =
        Sockets { addresses: vec![(Address::Unix(socket.clone()), Protocol::Nbd)], ..Sockets::default() };
    let mut server = common::server(NAND, Pace::Model, &sockets);
    let seen = scope(|threads| {
        let client = threads.spawn(|| client(&socket));
        server.serve(&StopFlag::default(), &mut || client.is_finished()).expect("it serves");
        client.join().expect("the client is done")
    });
    let result = serde_json::to_value(server.result()).expect("JSON");
    let read = &result["jobs"][0]["read"];
    assert_eq!(read["total_ios"], UNITS);
    let said = |value: &serde_json::Value| value.as_f64().expect("a time");
    let model = [said(&read["clat_ns"]["mean"]), said(&read["clat_ns"]["percentile"]["99.000000"])];
    (seen, model)
}

#[test]
#[ignore = "times a server: for a machine that does nothing else"]
fn mean_and_99th_percentile_are_within_10_percent_of_the_model() {
    let mut all = Vec::new();
    for _ in 0..ATTEMPTS {
        let (seen, model) = measure();
        assert!(model[0] >= 5e5, "{model:?}");
        assert!(seen[0] >= model[0], "earlier than the model: {seen:?}, {model:?}");
        println!("client {seen:.0?} ns, model {model:.0?} ns");
        if seen.iter().zip(model).all(|(seen, model)| *seen <= 1.1 * model) {
            return;
        }
        all.push((seen, model));
    }
    panic!("client and model, mean and 99th percentile in ns: {all:.0?}");
}
