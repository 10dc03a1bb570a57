//! Numbers as text, and ratios.

/// Formats a number with thousands separators.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// [`count`] of a number that may be negative.
pub fn count_signed(n: i64) -> String {
    let sign = if n < 0 { "−" } else { "" };
    format!("{sign}{}", count(n.unsigned_abs()))
}

/// Formats a time in a suitable unit.
pub fn duration(ns: f64) -> String {
    let scaled = |value: f64, unit: &str| match value {
        v if v >= 100.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    };
    match ns {
        0.0 => "0".to_owned(),
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => scaled(n / 1e3, "µs"),
        n if n < 1e9 => scaled(n / 1e6, "ms"),
        n if n < 120e9 => scaled(n / 1e9, "s"),
        n if n < 7200e9 => scaled(n / 60e9, "min"),
        n if n < 172_800e9 => scaled(n / 3600e9, "h"),
        n => scaled(n / 86_400e9, "days"),
    }
}

/// Formats a size in binary units.
pub fn bytes(n: f64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        let size = (1u64 << shift) as f64;
        if n >= size {
            return format!("{:.1} {unit}", n / size);
        }
    }
    format!("{n:.0} B")
}

/// Amount per second of `ns`; `None` if no time passed.
pub fn per_second(amount: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| amount as f64 * 1e9 / ns as f64)
}

/// Formats a rate: whole numbers from 100 on, one decimal from 10 on, two below.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 99.95 => count(r.round() as u64),
        r if r >= 9.995 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

/// Formats a factor: whole numbers from 10 on, two decimals below.
pub fn times(times: f64) -> String {
    if times >= 10.0 { format!("{times:.0} ×") } else { format!("{times:.2} ×") }
}

/// Removes blanks at the ends of lines, which tables add as padding.
pub fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// `a` / `b`; `None` if `b` is 0.
pub fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_635_778), "1,635,778");
        assert_eq!(duration(0.0), "0");
        assert_eq!(duration(705_120.0), "705 µs");
        assert_eq!(duration(1.5e9), "1.50 s");
        assert_eq!(duration(864_000e9), "10.0 days");
        assert_eq!(bytes(8.0 * 1024.0 * 1024.0 * 1024.0), "8.0 GiB");
    }
}
