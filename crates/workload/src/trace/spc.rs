//! SPC traces, as published in the UMass repository.

use strobe_types::{Op, SECTOR_BYTES};

use super::columns::{Columns, NS_PER_SECOND};
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_csv};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "spc",
    summary: "SPC trace (UMass Financial, WebSearch)",
    columns: "ASU (device), LBA (512 B), size (bytes), opcode (R or W), timestamp (s); further columns are ignored",
    source: "Storage Performance Council, trace file format 1.0.1; traces.cs.umass.edu",
    takes_action: false,
    time_unit_ns: NS_PER_SECOND,
    open: Open::One(|input, settings| {
        open_csv(input, &NAMES, move |line| parse_line(line, settings.unit_ns))
    }),
};

const NAMES: [&str; 5] = ["ASU", "LBA", "Size", "Opcode", "Timestamp"];

fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::csv(line);
    let device = columns.text("ASU")?.into();
    let offset = columns.scaled("LBA", SECTOR_BYTES)?;
    let bytes = columns.whole("size")?;
    let op = columns.op("opcode", &[("R", Op::Read), ("W", Op::Write)])?;
    let time_ns = columns.decimal("timestamp", unit_ns)?;
    Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, records};

    #[test]
    fn address_is_in_sectors_and_size_in_bytes() {
        let text = "0,20941264,8192,W,0.551706\n0, 20939840 ,8192,r,0.554041,x,,7\r\n";
        assert_eq!(records("spc", text), ["0 write 10721927168+8192", "2335000 read 10721198080+8192"]);
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "spc",
            &[
                ("0,1,512,W", "column timestamp is missing"),
                (",1,512,W,0.5", "column ASU is missing"),
                ("0,x,512,W,0.5", "column LBA must be a whole number"),
                ("0,1,-512,W,0.5", "column size must not be negative"),
                ("0,1,512,X,0.5", "column opcode must be R (read) or W (write)"),
                ("0,1,512,W,nan", "column timestamp must be a decimal number"),
                ("0,1,512,W,-0.5", "column timestamp must not be negative"),
                ("0,1,512,W,99999999999", "column timestamp is too large"),
                ("0,36028797018963968,512,W,0.5", "column LBA is too large"),
                ("0,36028797018963967,512,W,0.5", "the end of the request is too large"),
            ],
        );
    }
}
