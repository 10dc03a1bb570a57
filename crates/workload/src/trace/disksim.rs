//! DiskSim ASCII traces.

use strobe_types::{Op, SECTOR_BYTES};

use super::columns::{Columns, NS_PER_MILLISECOND};
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_lines};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "disksim",
    summary: "DiskSim ASCII (also FlashSim)",
    columns: "time (ms, decimal), device, block number (512 B), block count (512 B), flags (hexadecimal, bit 0 set = read)",
    source: "DiskSim 4.0 reference manual, default ASCII format; iotrace_ascii_get_ioreq_event",
    takes_action: false,
    time_unit_ns: NS_PER_MILLISECOND,
    open: Open::One(|input, settings| open_lines(input, move |line| parse_line(line, settings.unit_ns))),
};

fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::words(line);
    let time_ns = columns.decimal("time", unit_ns)?;
    let device = columns.text("device")?.into();
    let offset = columns.scaled("block number", SECTOR_BYTES)?;
    let bytes = columns.scaled("block count", SECTOR_BYTES)?;
    let op = if flags(columns.text("flags")?)? & 1 == 1 { Op::Read } else { Op::Write };
    columns.end()?;
    Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
}

fn flags(text: &str) -> Result<u32, Reason> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let malformed = || "column flags must be a hexadecimal number of 32 bits".to_string();
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(malformed());
    }
    u32::from_str_radix(digits, 16).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, records};

    #[test]
    fn bit_0_of_the_flags_is_a_read() {
        let text = "0.5 0 10 8 1\n 1.25\t0 2 1 0\n1.250001 0 2 0 0x3\n2 0 2 1 10\n";
        assert_eq!(
            records("disksim", text),
            ["0 read 5120+4096", "750000 write 1024+512", "750001 read 1024+0", "1500000 write 1024+512"]
        );
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "disksim",
            &[
                ("0.5 0 10 8", "column flags is missing"),
                ("0.5 0 10 8 1 9", "too many columns"),
                ("inf 0 10 8 1", "column time must be a decimal number"),
                ("-0.5 0 10 8 1", "column time must not be negative"),
                ("0.5 0 ten 8 1", "column block number must be a whole number"),
                ("0.5 0 10 36028797018963968 1", "column block count is too large"),
                ("0.5 0 36028797018963967 1 1", "the end of the request is too large"),
                ("0.5 0 10 8 R", "column flags must be a hexadecimal number"),
                ("0.5 0 10 8 -1", "column flags must be a hexadecimal number"),
                ("0.5 0 10 8 123456789", "column flags must be a hexadecimal number"),
                ("0.5 0 10 8 0x", "column flags must be a hexadecimal number"),
            ],
        );
    }
}
