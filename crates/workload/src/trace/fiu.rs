//! FIU traces: SRCMap and I/O deduplication (homes, mail, web-vm).

use strobe_types::{Op, SECTOR_BYTES};

use super::columns::Columns;
use super::detail::Detail;
use super::device::Device;
use super::format::{Format, Open};
use super::line::{Line, open_lines};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "fiu",
    summary: "FIU traces of a department's servers (SRCMap; homes, mail, web-vm with digests)",
    columns: "time (ns), PID, process, LBA (512 B), sectors (512 B), R or W, major, minor (device `major.minor`), digest of the data (ignored, may be missing)",
    source: "SNIA IOTTA repository, FIU traces, README; sylab.cs.fiu.edu, projects iodedup and srcmap",
    takes_action: false,
    time_unit_ns: 1,
    open: Open::One(|input, settings| open_lines(input, move |line| parse_line(line, settings.unit_ns))),
};

fn parse_line(line: &str, unit_ns: u64) -> Result<Line<'_>, Reason> {
    let mut columns = Columns::words(line);
    let time_ns = columns.scaled("time", unit_ns)?;
    columns.whole("PID")?;
    columns.text("process")?;
    let offset = columns.scaled("LBA", SECTOR_BYTES)?;
    let bytes = columns.scaled("sectors", SECTOR_BYTES)?;
    let op = columns.op("operation", &[("R", Op::Read), ("W", Op::Write)])?;
    let device = Device::Pair(columns.text("major")?, columns.text("minor")?);
    columns.next();
    columns.end()?;
    Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, fails, records, records_of};

    const SAMPLE: &str = "0 4892 syslogd 904265560 8 W 6 0 531e779e6e4ba96a9a5d9b8b9b4a5d0e\n\
                          89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n\
                          89968195800000 20782 gzip 8 16 w 8 1\n";

    // Expected values from `awk '{print $1, $6, $4 * 512, $5 * 512}'`.
    #[test]
    fn times_are_in_ns_and_addresses_in_sectors() {
        let expected = ["0 write 462983966720+4096", "89968195792462 read 144994910208+4096"];
        assert_eq!(records_of("fiu", "6.0", SAMPLE), expected);
        assert_eq!(records_of("fiu", "8.1", SAMPLE), ["0 write 4096+8192"], "without a digest");
        assert!(fails("fiu", SAMPLE).contains("line 3: a second device `8.1` after `6.0`"));
    }

    #[test]
    fn a_digest_may_be_anything() {
        assert_eq!(records("fiu", "7 1 x 8 1 R 6 0 -\n8 1 x 8 1 R 6 0 0\n").len(), 2);
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "fiu",
            &[
                ("1 2 x 8 8 W 6", "column minor is missing"),
                ("1 2 x 8 8 W", "column major is missing"),
                ("1 2 x 8 8", "column operation is missing"),
                ("1 2 x 8 8 D 6 0 a", "column operation must be R (read) or W (write)"),
                ("1 2 x 8 8 W 6 0 a b", "too many columns"),
                ("1.5 2 x 8 8 W 6 0 a", "column time must be a whole number"),
                ("-1 2 x 8 8 W 6 0 a", "column time must not be negative"),
                ("1 p x 8 8 W 6 0 a", "column PID must be a whole number"),
                ("1 2 two words 8 8 W 6 0 a", "column LBA must be a whole number"),
                ("1 2 x 36028797018963968 8 W 6 0 a", "column LBA is too large"),
                ("1 2 x 36028797018963967 8 W 6 0 a", "the end of the request is too large"),
                ("1 2 x 8 -8 W 6 0 a", "column sectors must not be negative"),
            ],
        );
    }
}
