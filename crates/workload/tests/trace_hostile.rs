//! No input makes a trace reader panic, hang, or return more than it contains.

use std::io::Read;

use flate2::Compression;
use flate2::read::GzEncoder;
use proptest::prelude::*;
use strobe_types::Op;
use strobe_workload::trace::{Action, Extent, FORMATS, PlacedDevice, TraceError, TraceOptions, from_reader};

const SAMPLES: [&[u8]; 4] = [
    include_bytes!("data/ext4_uml.blktrace.0"),
    include_bytes!("data/ext4_uml.blkparse.txt"),
    include_bytes!("data/fio_iolog_v3.log"),
    include_bytes!("data/ext4-postmark.iolog.gz"),
];

const LINES: [&str; 12] = [
    "128166372003061629,hm,1,Read,383496192,32768,413\n",
    "0.5 0 10 8 1\n",
    "48513000 0 10 8 0\n",
    "0,20941264,8192,W,0.551706\n",
    "419,W,8792731648,16384,1577808144360767\n",
    "1538323200,12910952,128,0,1063\n",
    "254,0 0 6 0.000000256 35 D RM 16968 + 8 [dd]\n",
    "strobe trace 1\n5 copy 0 4096 8192\n5 + 4096 512\n6 trim 0 512\n6 + 512 512\n",
    "fio version 2 iolog\nf add\nf wait 900 0\nf read 0 4096\nf sync_file_range 0 0\n",
    "1456095145.133076000,0.000806000,R,0,899056122368,131072\n",
    "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n",
    "254,0 0 6 0.000000256 0 C FF 16968 + 8 [0]\n",
];

fn binary_samples() -> [Vec<u8>; 3] {
    let record = |parts: &[&[u8]]| parts.concat().repeat(8);
    let [one, sectors] = [1u32.to_le_bytes(), 8u32.to_le_bytes()];
    let [lbn, time] = [42_932_745u64.to_le_bytes(), 5_633_898_368_802u64.to_le_bytes()];
    [
        record(&[&one, &sectors, &one, &[0x2a, 0, 0, 1], &lbn, &time]),
        record(&[&[0x28, 0, 0, 2], &one, &sectors, &one, &lbn, &time, &time]),
        record(&[&one, &lbn, &sectors, &(-1i64).to_le_bytes()]),
    ]
}

fn read_all_ways(bytes: &[u8], bytes_decoded_max: usize) -> usize {
    let mut records = 0;
    for format in FORMATS {
        let all = |action, unit_ns| TraceOptions {
            device: Some("all".into()),
            action: format.takes_action.then_some(action),
            time_unit_ns: Some(unit_ns),
            ..TraceOptions::default()
        };
        let choices = [
            TraceOptions::default(),
            all(Action::Queue, u64::MAX),
            all(Action::Complete, 1),
            TraceOptions { device: Some("0".into()), ..TraceOptions::default() },
            TraceOptions {
                placed: vec![PlacedDevice { name: "0".into(), offset: u64::MAX / 2 }],
                skip: Some(Extent::Bytes(4096)),
                take: Some(Extent::Time(u64::MAX)),
                ..TraceOptions::default()
            },
        ];
        for options in choices {
            records += read_one_way(bytes, bytes_decoded_max, format.name, &options);
        }
    }
    records
}

fn read_one_way(bytes: &[u8], bytes_decoded_max: usize, format: &str, options: &TraceOptions) -> usize {
    let source = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let mut reader = match from_reader(source, "hostile", format, options) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return 0;
        }
    };
    let mut count = 0;
    let mut position = 0;
    let mut failed = false;
    for record in reader.by_ref() {
        assert!(!failed, "a record after an error");
        match record {
            Ok(record) => {
                count += 1;
                assert!(record.position > position);
                position = record.position;
                assert!(record.offset.checked_add(record.bytes).is_some());
                assert!(record.op != Op::Flush || record.bytes == 0);
                assert!(count > 1 || (record.time_ns == 0 && !record.backwards));
            }
            Err(error) => {
                failed = true;
                let message = error.to_string();
                assert!(message.len() < 4000 && !message.contains(char::is_control), "{message}");
            }
        }
    }
    assert!(reader.next().is_none());
    // The shortest record of any format has nine bytes, `0 0 0 0 0`; its line end may be missing.
    let skipped = reader.skipped().total() as usize;
    assert!(count <= bytes_decoded_max / 9 + 1 && skipped <= bytes_decoded_max + 1);
    count
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    GzEncoder::new(bytes, Compression::fast()).read_to_end(&mut out).expect("memory");
    out
}

fn seed() -> impl Strategy<Value = Vec<u8>> {
    let sample = (0..SAMPLES.len(), 0usize..4000, 0usize..2000).prop_map(|(index, length, start)| {
        let sample = SAMPLES[index];
        // Only the start keeps the header, so half of the seeds begin there.
        let start = if start < 1000 { 0 } else { start.min(sample.len()) };
        sample[start..(start + length).min(sample.len())].to_vec()
    });
    let lines = prop::collection::vec(0..LINES.len(), 1..6)
        .prop_map(|picks| picks.iter().flat_map(|&pick| LINES[pick].bytes()).collect());
    let repeated = (0..LINES.len(), 1usize..6).prop_map(|(pick, times)| LINES[pick].repeat(times).into());
    let binary = (0..binary_samples().len(), 0usize..400).prop_map(|(pick, length)| {
        let mut sample = binary_samples()[pick].clone();
        sample.truncate(length);
        sample
    });
    prop_oneof![sample, lines, repeated, binary]
}

fn hostile_byte() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(b"0123456789-+.,# \t\r\n\0[DQRWFN\xff\x80".to_vec()), any::<u8>()]
}

proptest! {
    // Mutated traces without a record do not count; at least one in four must have one.
    #![proptest_config(ProptestConfig { max_global_rejects: 1800, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(hostile_byte(), 0..600)) {
        read_all_ways(&bytes, bytes.len());
        read_all_ways(&gzip(&bytes), bytes.len());
    }

    #[test]
    fn mutated_traces_are_survived(
        seed in seed(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), hostile_byte(), 0u8..3), 0..8),
    ) {
        let mut bytes = seed;
        for (index, value, kind) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = value,
                1 => bytes.insert(at, value),
                _ => drop(bytes.remove(at)),
            }
        }
        // A compressed sample may expand at most by this factor.
        let records = read_all_ways(&bytes, bytes.len() * 1100);
        let compressed = gzip(&bytes);
        let cut = compressed.len() / 2;
        read_all_ways(&compressed[..cut], bytes.len() * 1100);
        prop_assume!(records > 0);
    }
}

struct Endless(u64);

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        assert!(self.0 < 10 << 20, "the reader takes more than 10 MiB of one line");
        self.0 += out.len() as u64;
        out.fill(b'1');
        Ok(out.len())
    }
}

#[test]
fn an_endless_line_is_refused() {
    for format in FORMATS {
        let mut reader = from_reader(Box::new(Endless(0)), "endless", format.name, &TraceOptions::default())
            .expect("opens");
        let first = reader.next();
        assert!(matches!(first, Some(Err(TraceError::Malformed { .. }))), "{}: {first:?}", format.name);
        assert!(reader.next().is_none());
    }
}

#[test]
fn a_compressed_line_of_ten_megabytes_is_refused() {
    let bytes = gzip(&vec![b'1'; 10 << 20]);
    for format in FORMATS {
        let source = Box::new(std::io::Cursor::new(bytes.clone()));
        let mut reader = from_reader(source, "bomb", format.name, &TraceOptions::default()).expect("opens");
        assert!(matches!(reader.next(), Some(Err(TraceError::Malformed { .. }))));
        assert!(reader.next().is_none());
    }
}
