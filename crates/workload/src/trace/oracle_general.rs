//! Cache traces in libCacheSim's oracleGeneral format.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | time, s |
//! | 4..12 | object |
//! | 12..16 | bytes |
//! | 16..24 | number of the next request for the object, -1 if none |
//!
//! Objects of block traces are logical blocks: libCacheSim uses the LBN of a vscsi trace. An object is
//! therefore a sector here. The format has no operation; cache requests count as reads.

use strobe_types::{Op, SECTOR_BYTES};

use super::columns::NS_PER_SECOND;
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::Line;
use super::problem::Reason;
use super::record::{open_records, scaled, u32_at, u64_at};

pub(super) const FORMAT: Format = Format {
    name: "oracle-general",
    summary: "libCacheSim's oracleGeneral (binary): objects are taken as sectors, and all requests are reads",
    columns: "records of 24 bytes, little-endian: time (s), object (LBA of 512 B, modulo 2^54), size (bytes), next request for it (ignored)",
    source: "github.com/1a1a11a/libCacheSim, README, section Open source cache traces",
    takes_action: false,
    time_unit_ns: NS_PER_SECOND,
    open: Open::One(|input, settings| {
        open_records(input, RECORD_BYTES, |_| 0, move |record| parse_record(record, settings.unit_ns))
    }),
};

const RECORD_BYTES: usize = 24;

/// Keeps 54 bits of an object. Objects of other traces are 64-bit hashes; with 54 bits, offset plus length
/// stays below 2^64 bytes.
const OBJECT_MASK: u64 = (1 << 54) - 1;

const REQUESTS_MAX: i64 = 1 << 48;

fn parse_record(record: &[u8], unit_ns: u64) -> Result<Line<'static>, Reason> {
    let next = u64_at(record, 16).cast_signed();
    if next != i64::MAX && !(-1..REQUESTS_MAX).contains(&next) {
        return Err(format!(
            "the next request for the object is number {next}, which no trace has; is this another format?"
        ));
    }
    Ok(Line::Record {
        time_ns: scaled("time", u32_at(record, 0).into(), unit_ns)?,
        op: Op::Read,
        offset: (u64_at(record, 4) & OBJECT_MASK) * SECTOR_BYTES,
        bytes: u32_at(record, 12).into(),
        device: "".into(),
        detail: Detail::Plain,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read, shown};
    use super::super::{TraceError, TraceOptions};

    fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
    }

    #[test]
    fn a_public_sample_is_read() {
        let hex = "6af75500091a8f020000000000020000ffffffffffffffff\
                   6af755000a1a8f020000000000020000ffffffffffffffff\
                   6af755000b1a8f020000000000020000ffffffffffffffff\
                   6af75500379b680200000000001a0000ffffffffffffffff";
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
            .collect();
        let (records, error) = read("oracle-general", &bytes, &TraceOptions::default());
        assert!(error.is_none(), "{error:?}");
        let expected: Vec<String> =
            [(42_932_745u64, 512), (42_932_746, 512), (42_932_747, 512), (40_409_911, 6656)]
                .iter()
                .map(|(block, bytes)| format!("0 read {}+{bytes}", block * 512))
                .collect();
        assert_eq!(shown(&records), expected);
    }

    #[test]
    fn a_hash_becomes_an_address() {
        let bytes = [record(1, u64::MAX, u32::MAX, i64::MAX), record(3, 1 << 54, 0, 7)].concat();
        let (records, error) = read("oracle-general", &bytes, &TraceOptions::default());
        assert!(error.is_none(), "{error:?}");
        let last = ((1u64 << 54) - 1) * 512;
        assert_eq!(shown(&records), [format!("0 read {last}+4294967295"), "2000000000 read 0+0".into()]);
    }

    #[test]
    fn what_is_not_a_record_is_refused() {
        let good = record(1, 8, 512, -1);
        let fails =
            |bytes: &[u8]| read("oracle-general", bytes, &TraceOptions::default()).1.expect("an error");
        for (bytes, expected) in [
            (b"0,20941264,8192,W,0.551706\n".to_vec(), "record 1: the next request for the object is number"),
            (
                [good.clone(), record(1, 8, 512, -2)].concat(),
                "record 2: the next request for the object is number -2",
            ),
            (record(1, 8, 512, 1 << 48), "is number 281474976710656, which no trace has"),
        ] {
            let error = fails(&bytes);
            assert!(matches!(error, TraceError::Malformed { .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        for length in 1..good.len() {
            assert!(matches!(fails(&good[..length]), TraceError::Truncated { .. }));
        }
        let long = TraceOptions { time_unit_ns: Some(u64::MAX), ..TraceOptions::default() };
        let error = read("oracle-general", &record(2, 8, 512, 1), &long).1.expect("an error");
        assert!(error.to_string().contains("time 2 is too large"), "{error}");
    }
}
