use super::{Format, TraceError};
use super::{alibaba, blkparse, blktrace, csv, disksim, fio, fiu, mqsim, msr, oracle_general};
use super::{spc, ssdsim, strobe, systor, tencent, vscsi};

/// All formats in listing order. Append new ones: fuzzer seeds select a format by its index.
pub const FORMATS: &[Format] = &[
    fio::FORMAT,
    blkparse::FORMAT,
    blktrace::FORMAT,
    msr::FORMAT,
    disksim::FORMAT,
    mqsim::FORMAT,
    ssdsim::FORMAT,
    spc::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    strobe::FORMAT,
    systor::FORMAT,
    fiu::FORMAT,
    vscsi::FORMAT,
    oracle_general::FORMAT,
    csv::FORMAT,
];

/// Returns the format called `name`, or [`TraceError::UnknownFormat`].
pub fn find_format(name: &str) -> Result<&'static Format, TraceError> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| TraceError::UnknownFormat {
        given: name.into(),
        nearest: nearest(name),
        known: names(),
    })
}

fn names() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    names.join(", ")
}

fn nearest(given: &str) -> &'static str {
    let given: Vec<u8> = given.bytes().take(64).map(|byte| byte.to_ascii_lowercase()).collect();
    let names = FORMATS.iter().map(|format| format.name);
    // `min_by_key` keeps the first minimum: ties go to the first format in the table.
    names.min_by_key(|name| edit_distance(&given, name.as_bytes())).unwrap_or_default()
}

fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_gets_the_closest_one() {
        for (given, expected) in
            [("blkpase", "blkparse"), ("MSR", "msr"), ("blktrace2", "blktrace"), ("diskim", "disksim")]
        {
            assert_eq!(nearest(given), expected);
        }
        let message = find_format("ali-baba").expect_err("unknown").to_string();
        assert!(message.contains("`alibaba`") && message.contains("fio, blkparse"), "{message}");
        assert_eq!(edit_distance(b"kitten", b"sitting"), 3);
        assert_eq!(edit_distance(b"", b"abc"), 3);
    }

    #[test]
    fn the_table_is_complete_and_found_by_name() {
        for format in FORMATS {
            assert_eq!(find_format(format.name).expect("in the table").name, format.name);
            for text in [format.summary, format.columns, format.source] {
                assert!(!text.is_empty() && !text.contains('\n'), "{}", format.name);
            }
        }
    }
}
