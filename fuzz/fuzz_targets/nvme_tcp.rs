//! Any bytes as a host of the NVMe/TCP target: bounded memory, answers, and termination.
//!
//! The first byte is odd if the connection is an admin queue already. Each further byte that is a multiple of
//! 32 ends a piece, like a socket read.

#![no_main]

use std::io::IoSlice;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use strobe_serve::nvme_tcp::{GATHERED_BYTES_MAX, NQN, Options, Session, Subsystem};
use strobe_serve::{Engine, Pace, Session as _};
use strobe_types::SimTime;

fuzz_target!(|input: &[u8]| {
    let [is_ready, input @ ..] = input else { return };
    let config = serde_json::json!({
        "nand": {
            "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 16, "pages_per_block": 8,
            "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
            "endurance_pe": 1000, "data": "bytes",
        },
        "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 64 },
        "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
    });
    let config = serde_json::from_value(config).expect("a configuration");
    let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
    let mut engine = Engine::new(drive, SimTime::ZERO, Pace::None);
    let options = Options { read_only: is_ready & 2 != 0, ..Options::default() };
    let mut subsystem = Subsystem::new(NQN, options);
    let mut session = Session::new();
    if is_ready & 1 != 0 {
        say(&mut session, &hello(), &mut subsystem, &mut engine);
        assert!(session.is_ready());
    }
    for piece in input.split_inclusive(|byte| byte % 32 == 0) {
        say(&mut session, piece, &mut subsystem, &mut engine);
    }
    session.leave(&mut subsystem);
    assert_eq!(subsystem.controllers(), 0);
});

/// ICReq, and Connect with its data in the capsule.
fn hello() -> Vec<u8> {
    let mut bytes = vec![0, 0, 128, 0, 128, 0, 0, 0];
    bytes.resize(128, 0);
    bytes.extend([4, 0, 72, 72]);
    bytes.extend((72 + 1024_u32).to_le_bytes());
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[4], entry[39], entry[44]) = (0x7f, 0x40, 1, 1, 31);
    entry[32..36].copy_from_slice(&1024_u32.to_le_bytes());
    bytes.extend(entry);
    let mut data = [0; 1024];
    data[16..18].copy_from_slice(&[0xff, 0xff]);
    data[256..256 + NQN.len()].copy_from_slice(NQN.as_bytes());
    bytes.extend(data);
    bytes
}

fn say(session: &mut Session, mut bytes: &[u8], subsystem: &mut Subsystem, engine: &mut Engine) {
    while !bytes.is_empty() && !session.is_full() {
        let free_space = session.free_space();
        assert!(free_space.len() <= GATHERED_BYTES_MAX);
        let count = free_space.len().min(bytes.len());
        free_space[..count].copy_from_slice(&bytes[..count]);
        session.received(count);
        bytes = &bytes[count..];
        session.submit(0, subsystem, engine, Duration::ZERO);
        let mut answers = Vec::new();
        engine.advance(&mut answers);
        for (tag, result) in answers {
            session.answer(tag as u32, result, subsystem, engine);
        }
        while session.output_bytes() > 0 {
            let mut parts = [IoSlice::new(&[]); 8];
            let count = session.output(&mut parts);
            let sent = parts[..count].iter().map(|part| part.len()).sum();
            session.sent(sent);
        }
    }
}
