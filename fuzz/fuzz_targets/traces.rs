//! Any bytes in any trace format: records or one error, and termination.
//!
//! The first byte selects the format, the second the options; the rest is the file.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use strobe_workload::trace::{Action, Extent, FORMATS, TraceOptions, from_reader};

fuzz_target!(|input: &[u8]| {
    let [format, choices, file @ ..] = input else { return };
    let format = &FORMATS[usize::from(*format) % FORMATS.len()];
    let options = TraceOptions {
        device: match choices % 3 {
            0 => None,
            1 => Some("all".to_owned()),
            _ => Some("0".to_owned()),
        },
        action: match choices >> 5 & 3 {
            _ if !format.takes_action => None,
            0 => None,
            at => Some(Action::ALL[usize::from(at) - 1]),
        },
        time_unit_ns: (choices & 0x80 != 0).then_some(u64::MAX / 7),
        skip: (choices & 4 != 0).then_some(Extent::Requests(1)),
        take: (choices & 8 != 0).then_some(Extent::Bytes(1 << 20)),
        columns: (choices & 16 != 0 && format.name == "csv").then(|| "time,op,lbn,len,device".to_owned()),
        ..TraceOptions::default()
    };
    let file = Box::new(Cursor::new(file.to_vec()));
    let mut reader = match from_reader(file, "fuzz", format.name, &options) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut position = 0;
    while let Some(item) = reader.next() {
        match item {
            Ok(record) => {
                assert!(record.offset.checked_add(record.bytes).is_some(), "{record:?}");
                assert!(record.position > position, "{record:?} after {position}");
                position = record.position;
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains("fuzz") && message.len() < 4096, "{message}");
                assert!(!message.chars().any(char::is_control), "{message:?}");
                assert!(reader.next().is_none(), "goes on after its end");
            }
        }
    }
    assert!(reader.next().is_none(), "goes on after its end");
    assert!(reader.skipped().total() < 1 << 40);
});
