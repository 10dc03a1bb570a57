//! SSDsim traces: those of MQSim in nanoseconds.

use super::Format;
use super::line::open_lines;
use super::mqsim::parse_line;

pub(super) const FORMAT: Format = Format {
    name: "ssdsim",
    summary: "SSDsim ASCII; here 0 is a write and 1 a read",
    columns: "time (ns), device, LSN (512 B), sectors (512 B), type (0 = write, 1 = read)",
    source: "SSDsim 2.1 (Huazhong University of Science and Technology), get_requests",
    takes_action: false,
    takes_time_unit: false,
    open: |input, _| open_lines(input, |line| parse_line(line, 1)),
};

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, read, records};
    use super::super::{TraceError, TraceOptions};

    #[test]
    fn zero_is_a_write_and_one_a_read() {
        let text = "4096 0 10 8 0\n4097 0 0 1 1\n";
        assert_eq!(records("ssdsim", text), ["0 write 5120+4096", "1 read 0+512"]);
    }

    #[test]
    fn the_time_unit_is_fixed() {
        let options = TraceOptions { time_unit_ns: Some(1), ..TraceOptions::default() };
        assert!(matches!(read("ssdsim", b"", &options).1, Some(TraceError::BadOption { .. })));
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "ssdsim",
            &[("1 0 10 8", "column type is missing"), ("x 0 1 8 1", "column time must be")],
        );
    }
}
