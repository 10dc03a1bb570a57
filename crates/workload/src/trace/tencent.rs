//! Tencent cloud block storage traces.

use strobe_types::{Op, SECTOR_BYTES};

use super::columns::{Columns, NS_PER_SECOND};
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_csv};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "tencent",
    summary: "Tencent CBS traces, many volumes in one file; here 0 is a read and 1 a write",
    columns: "Timestamp (s since 1970), Offset (512 B), Size (512 B), IOType (0 = read, 1 = write), VolumeID",
    source: "SNIA IOTTA repository, Tencent Block Storage traces",
    takes_action: false,
    time_unit_ns: NS_PER_SECOND,
    open: Open::One(|input, settings| {
        open_csv(input, &NAMES, move |line| parse_line(line, settings.unit_ns))
    }),
};

const NAMES: [&str; 5] = ["Timestamp", "Offset", "Size", "IOType", "VolumeID"];

fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::csv(line);
    let time_ns = columns.decimal("Timestamp", unit_ns)?;
    let offset = columns.scaled("Offset", SECTOR_BYTES)?;
    let bytes = columns.scaled("Size", SECTOR_BYTES)?;
    let op = columns.op("IOType", &[("0", Op::Read), ("1", Op::Write)])?;
    let device = columns.text("VolumeID")?.into();
    columns.end()?;
    Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, records};

    #[test]
    fn zero_is_a_read_and_one_a_write() {
        let text = "1538323200,12910952,128,0,1063\n1538323201,0,8,1,1063\n";
        assert_eq!(records("tencent", text), ["0 read 6610407424+65536", "1000000000 write 0+4096"]);
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "tencent",
            &[
                ("1538323200,12910952,128,0", "column VolumeID is missing"),
                ("1538323200,12910952,128,0,", "column VolumeID is missing"),
                ("1538323200,12910952,128,0,1063,1", "too many columns"),
                ("1538323200,12910952,128,W,1063", "column IOType must be 0 (read) or 1 (write)"),
                ("1538323200,-8,128,0,1063", "column Offset must not be negative"),
                ("1538323200,8,36028797018963968,0,1063", "column Size is too large"),
                ("18446744074,8,8,0,1063", "column Timestamp is too large"),
            ],
        );
    }
}
