//! SSDsim traces. Lines have the format of MQSim.

use super::format::{Format, Open};
use super::line::open_lines;
use super::mqsim::parse_line;

pub(super) const FORMAT: Format = Format {
    name: "ssdsim",
    summary: "SSDsim ASCII; here 0 is a write and 1 a read",
    columns: "time (ns), device, LSN (512 B), sectors (512 B), type (0 = write, 1 = read)",
    source: "SSDsim 2.1 (Huazhong University of Science and Technology), get_requests",
    takes_action: false,
    time_unit_ns: 1,
    open: Open::One(|input, settings| open_lines(input, move |line| parse_line(line, settings.unit_ns))),
};

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refused, records};

    #[test]
    fn zero_is_a_write_and_one_a_read() {
        let text = "4096 0 10 8 0\n4097 0 0 1 1\n";
        assert_eq!(records("ssdsim", text), ["0 write 5120+4096", "1 read 0+512"]);
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert_refused(
            "ssdsim",
            &[("1 0 10 8", "column type is missing"), ("x 0 1 8 1", "column time must be")],
        );
    }
}
