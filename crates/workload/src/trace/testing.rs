use std::io::Cursor;

use super::{TraceError, TraceOptions, TraceRecord, from_reader};

pub(super) fn read(
    format: &str,
    bytes: &[u8],
    options: &TraceOptions,
) -> (Vec<TraceRecord>, Option<TraceError>) {
    let source = Box::new(Cursor::new(bytes.to_vec()));
    let mut reader = match from_reader(source, "test", format, options) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    let error = loop {
        match reader.next() {
            None => break None,
            Some(Ok(record)) => records.push(record),
            Some(Err(error)) => break Some(error),
        }
    };
    assert!(reader.next().is_none(), "the reader goes on after its end");
    (records, error)
}

pub(super) fn shown(records: &[TraceRecord]) -> Vec<String> {
    let show = |r: &TraceRecord| {
        let mark = if r.backwards { "<" } else { "" };
        format!("{mark}{} {} {}+{}", r.time_ns, r.op.name(), r.offset, r.bytes)
    };
    records.iter().map(show).collect()
}

pub(super) fn records(format: &str, text: &str) -> Vec<String> {
    let (records, error) = read(format, text.as_bytes(), &TraceOptions::default());
    assert!(error.is_none(), "{error:?}");
    shown(&records)
}

pub(super) fn records_of(format: &str, device: &str, text: &str) -> Vec<String> {
    let options = TraceOptions { device: Some(device.into()), ..TraceOptions::default() };
    let (records, error) = read(format, text.as_bytes(), &options);
    assert!(error.is_none(), "{error:?}");
    shown(&records)
}

pub(super) fn fails(format: &str, text: &str) -> String {
    let (_, error) = read(format, text.as_bytes(), &TraceOptions::default());
    error.expect("an error").to_string()
}

pub(super) fn assert_refused(format: &str, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let text = format!("# comment\n{line}\n");
        let (records, error) = read(format, text.as_bytes(), &TraceOptions::default());
        let error = error.unwrap_or_else(|| panic!("{line} was accepted"));
        assert!(records.is_empty(), "{line}");
        assert!(matches!(error, TraceError::Malformed { .. }), "{line}: {error:?}");
        let message = error.to_string();
        assert!(message.starts_with("trace test, line 2: "), "{message}");
        assert!(message.contains(expected), "{message} instead of {expected}");
        assert!(message.ends_with(&format!(": `{line}`")), "{message}");
    }
}
