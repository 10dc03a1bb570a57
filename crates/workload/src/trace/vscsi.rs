//! CloudPhysics traces of virtual SCSI disks, versions 1 and 2.
//!
//! | version 1 | version 2 | field |
//! |---|---|---|
//! | 0..4 | 4..8 | serial number |
//! | 4..8 | 8..12 | bytes |
//! | 8..12 | 12..16 | scatter-gather elements |
//! | 12..14 | 0..2 | SCSI operation code |
//! | 14..16 | 2..4 | version, in the high byte |
//! | 16..24 | 16..24 | first sector of 512 B |
//! | 24..32 | 24..32 | time, µs |
//! | | 32..40 | response time |

use strobe_types::{Op, SECTOR_BYTES};

use super::SkipReason;
use super::columns::NS_PER_MICROSECOND;
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::Line;
use super::problem::Reason;
use super::record::{open_records, scaled, u16_at, u32_at, u64_at};

pub(super) const FORMAT: Format = Format {
    name: "vscsi",
    summary: "CloudPhysics traces of virtual SCSI disks, version 1 or 2 (binary)",
    columns: "records of 32 bytes (version 1) or 40 (version 2), little-endian: SCSI operation code, size (bytes), LBN (512 B), time (us) and others",
    source: "github.com/1a1a11a/libCacheSim, traceReader/customizedReader/vscsi.h",
    takes_action: false,
    time_unit_ns: NS_PER_MICROSECOND,
    open: Open::One(|input, settings| {
        let mut version = None;
        let parse = move |record: &[u8]| parse_record(record, &mut version, settings.unit_ns);
        open_records(input, V1_BYTES, |first| if is_v1(first) { 0 } else { V2_BYTES - V1_BYTES }, parse)
    }),
};

const V1_BYTES: usize = 32;
const V2_BYTES: usize = 40;

fn is_v1(record: &[u8]) -> bool {
    // In version 2 this is the high byte of the number of scatter-gather elements, which is 0.
    record[15] == 1
}

fn parse_record(record: &[u8], first: &mut Option<u16>, unit_ns: u64) -> Result<Line<'static>, Reason> {
    let (code, version, bytes) = if record.len() == V1_BYTES {
        (u16_at(record, 12), u16_at(record, 14) >> 8, u32_at(record, 4))
    } else {
        (u16_at(record, 0), u16_at(record, 2) >> 8, u32_at(record, 8))
    };
    let expected = if record.len() == V1_BYTES { 1 } else { 2 };
    if version != expected {
        return Err(match first {
            None => "this is not a vscsi record of version 1 or 2; is this another format?".into(),
            Some(first) => format!("its version is {version} instead of {first}"),
        });
    }
    *first = Some(version);
    let op = match code {
        // READ and WRITE of 6, 10, 12 and 16 bytes.
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Op::Write,
        // SYNCHRONIZE CACHE of 10 and 16 bytes.
        0x35 | 0x91 => Op::Flush,
        _ => return Ok(Line::Skip(SkipReason::Passthrough)),
    };
    let time_ns = scaled("time", u64_at(record, 24), unit_ns)?;
    let sector = if op == Op::Flush { 0 } else { u64_at(record, 16) };
    let offset = scaled("LBN", sector, SECTOR_BYTES)?;
    Ok(Line::Record { time_ns, op, offset, bytes: bytes.into(), device: "".into(), detail: Detail::Plain })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read, shown};
    use super::super::{TraceError, TraceOptions, from_reader};

    const SAMPLE: [&str; 6] = [
        "f400008000020000010000002a000001091a8f020000000022cf82be1f050000",
        "6100008000020000010000002a0000010a1a8f0200000000f18286be1f050000",
        "e800008000020000010000002a0000010b1a8f0200000000c48e88be1f050000",
        "41000080001a0000020000002a000001379b6802000000009cf28bbe1f050000",
        "5100008000180000020000002a0000016796e7010000000004359bbe1f050000",
        "9f00008000e00000010000002a000001f72f5f0000000000ec359bbe1f050000",
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
            .collect()
    }

    fn sample() -> Vec<u8> {
        SAMPLE.iter().flat_map(|record| bytes(record)).collect()
    }

    fn record(version: u8, code: u8, length: u32, lbn: u64, time: u64) -> Vec<u8> {
        let [sn, nsg] = [7u32, 1].map(u32::to_le_bytes);
        let (length, rest) = (length.to_le_bytes(), [lbn.to_le_bytes(), time.to_le_bytes()].concat());
        let kind = [code, 0, 0, version];
        match version {
            1 => [&sn[..], &length, &nsg, &kind, &rest].concat(),
            _ => [&kind[..], &sn, &length, &nsg, &rest, &[0; 8]].concat(),
        }
    }

    fn fails(bytes: &[u8]) -> TraceError {
        read("vscsi", bytes, &TraceOptions::default()).1.expect("an error")
    }

    // Expected numbers from libCacheSim's CSV of the same sample.
    #[test]
    fn a_public_sample_is_read() {
        let (records, error) = read("vscsi", &sample(), &TraceOptions::default());
        assert!(error.is_none(), "{error:?}");
        let blocks = [42_932_745u64, 42_932_746, 42_932_747, 40_409_911, 31_954_535, 6_238_199];
        assert_eq!(records.iter().map(|r| r.offset / 512).collect::<Vec<_>>(), blocks);
        assert_eq!(records.iter().map(|r| r.bytes).sum::<u64>(), 3 * 512 + 6656 + 6144 + 57_344);
        assert_eq!(shown(&records)[1], "242639000 write 21981565952+512");
        assert_eq!(records[5].time_ns, (0x51f_be9b_35ec - 0x51f_be82_cf22) * 1000);
    }

    #[test]
    fn both_versions_give_the_same_requests() {
        let operations =
            [(0x28, 4096), (0x8a, 512), (0x35, 0), (0x42, 24), (0x12, 36), (0x08, 512), (0xaa, 0)];
        for version in [1, 2] {
            let bytes: Vec<u8> = (0..)
                .zip(operations)
                .flat_map(|(at, (code, length))| record(version, code, length, 8, at))
                .collect();
            let mut reader =
                from_reader(Box::new(std::io::Cursor::new(bytes)), "t", "vscsi", &TraceOptions::default())
                    .expect("opens");
            let records: Vec<_> = reader.by_ref().map(|record| record.expect("good")).collect();
            let expected = [
                "0 read 4096+4096",
                "1000 write 4096+512",
                "2000 flush 0+0",
                "5000 read 4096+512",
                "6000 write 4096+0",
            ];
            assert_eq!(shown(&records), expected, "version {version}");
            assert_eq!(reader.skipped().to_string(), "2 passthrough commands", "version {version}");
        }
    }

    #[test]
    fn a_cut_anywhere_within_a_record_is_found() {
        for version in [1, 2] {
            let one = record(version, 0x2a, 512, 8, 1);
            let bytes = one.repeat(3);
            for length in 0..=bytes.len() {
                let (records, error) = read("vscsi", &bytes[..length], &TraceOptions::default());
                assert_eq!(records.len(), length / one.len());
                let is_cut = matches!(error, Some(TraceError::Truncated { .. }));
                assert_eq!(is_cut, length % one.len() != 0, "{length}: {error:?}");
            }
        }
    }

    #[test]
    fn what_is_not_a_record_is_refused() {
        let good = record(1, 0x2a, 512, 8, 1);
        for (bytes, expected) in [
            (vec![b'x'; 40], "record 1: this is not a vscsi record of version 1 or 2"),
            (vec![0; 40], "record 1: this is not a vscsi record of version 1 or 2"),
            (record(3, 0x2a, 512, 8, 1), "record 1: this is not a vscsi record"),
            ([good.clone(), record(2, 0x2a, 512, 8, 1)].concat(), "record 2: its version is 0 instead of 1"),
            (record(1, 0x2a, 512, 1 << 55, 1), "record 1: LBN 36028797018963968 is too large"),
            (record(2, 0x2a, 512, (1 << 55) - 1, 1), "record 1: the end of the request is too large"),
            (record(2, 0x28, 512, 8, u64::MAX), "record 1: time 18446744073709551615 is too large"),
        ] {
            let error = fails(&bytes);
            assert!(matches!(error, TraceError::Malformed { .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
