//! Texts and numbers for display.

/// Maximum characters of a text from a result.
const CHARS_MAX: usize = 200;
/// Maximum characters of a text from Strobe itself.
const LONG_MAX: usize = 40_000;

/// Escapes a text for HTML, cut if long.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(CHARS_MAX));
    for c in text.chars().take(CHARS_MAX) {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    if text.chars().nth(CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// Escapes a longer text, such as a configuration, and keeps its lines.
pub(crate) fn escaped_lines(text: &str) -> String {
    let chars: Vec<char> = text.chars().take(LONG_MAX).collect();
    let lines = chars.split(|&c| c == '\n').map(|line| {
        line.chunks(CHARS_MAX).map(|part| escaped(&part.iter().collect::<String>())).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn script(value: &serde_json::Value) -> String {
    // Escape characters that could end the script element or start a comment.
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Plain,
    Ns,
    BytesPerSecond,
    Bytes,
    Share,
}

impl Unit {
    /// Scales, largest first, and the name of the unit.
    fn scales(self) -> (&'static [(f64, &'static str)], &'static str) {
        match self {
            Unit::Plain => (&[(1e9, "G"), (1e6, "M"), (1e4, "k")], ""),
            Unit::Ns => (&[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], " ns"),
            Unit::BytesPerSecond => {
                (&[(1e15, " PB/s"), (1e12, " TB/s"), (1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s")], " B/s")
            }
            Unit::Bytes => (&[(1e15, " PB"), (1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB")], " B"),
            Unit::Share => (&[], " %"),
        }
    }
}

/// Formats `value` with three digits and its unit.
pub(crate) fn number(value: f64, unit: Unit) -> String {
    let (scales, name) = unit.scales();
    match unit {
        Unit::Share => match value * 100.0 {
            // Tails of distributions are shown as powers of ten.
            percent if percent > 0.0 && percent < 0.01 => format!("{}e-{} %", 1, -exponent(percent)),
            percent => format!("{} %", digits(percent)),
        },
        _ => scaled(value, scales, name),
    }
}

/// Formats all values in one multiple of the unit, with equal decimals.
///
/// The largest value gets three digits. Up to two more decimals give the smallest at least one.
pub(crate) fn aligned(values: &[f64], unit: Unit) -> Vec<String> {
    let sizes = || values.iter().map(|value| value.abs()).filter(|size| *size > 0.0);
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    let (scales, name) = unit.scales();
    let (scale, name) = match scales.iter().find(|(scale, _)| most >= *scale) {
        _ if unit == Unit::Share => (0.01, " %"),
        Some((_, "k")) => (1e3, "k"),
        Some(&(scale, name)) => (scale, name),
        None => (1.0, name),
    };
    let needed = |size: f64, digits: i32| if size > 0.0 { digits - 1 - exponent(size / scale) } else { 0 };
    let coarse = needed(most, 3);
    let fine = if most > 0.0 { needed(least, 1) } else { 0 };
    let places = coarse.max(fine.min(coarse + 2)).clamp(0, 9) as usize;
    values.iter().map(|value| format!("{:.places$}{name}", value / scale)).collect()
}

fn exponent(value: f64) -> i32 {
    libm::floor(libm::log10(value) + 1e-9) as i32
}

fn scaled(value: f64, scales: &[(f64, &str)], unit: &str) -> String {
    let large = scales.iter().find(|(scale, _)| value.abs() >= *scale);
    match large {
        // Plain numbers are abbreviated from 10k on: 4096 stays.
        Some((_, "k")) => format!("{}k", digits(value / 1e3)),
        Some((scale, name)) => format!("{}{name}", digits(value / scale)),
        None => format!("{}{unit}", digits(value)),
    }
}

/// Three significant digits, and all digits before the point.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

pub(crate) fn count(value: u64) -> String {
    let text = value.to_string();
    let mut out = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_ends_what_it_stands_in() {
        assert_eq!(escaped("<script>\"'&\u{7}"), "&lt;script&gt;&quot;&#39;&amp;\u{fffd}");
        assert_eq!(escaped(&"x".repeat(1000)).chars().count(), CHARS_MAX + 1);
        let hostile = serde_json::json!({ "</script><!--": "</script>&" });
        assert!(!script(&hostile).contains(['<', '>', '&']), "{}", script(&hostile));
        let back: serde_json::Value = serde_json::from_str(&script(&hostile)).expect("still JSON");
        assert_eq!(back, hostile);
    }

    #[test]
    fn aligned_numbers_have_one_unit_and_one_number_of_decimals() {
        assert_eq!(aligned(&[3.7, 3.07, 3.0], Unit::Plain), ["3.70", "3.07", "3.00"]);
        assert_eq!(aligned(&[1.5e6, 250_000.0], Unit::Ns), ["1.50 ms", "0.25 ms"]);
        assert_eq!(aligned(&[120.0, 0.2], Unit::Plain), ["120.0", "0.2"]);
        assert_eq!(aligned(&[0.25, 0.071], Unit::Share), ["25.0 %", "7.1 %"]);
        assert_eq!(aligned(&[0.0, 0.0], Unit::Bytes), ["0 B", "0 B"]);
        assert_eq!(aligned(&[45_000.0, 9000.0], Unit::Plain), ["45.0k", "9.0k"]);
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (value, unit, text) in [
            (0.0, Unit::Plain, "0"),
            (1.926, Unit::Plain, "1.93"),
            (4096.0, Unit::Plain, "4096"),
            (716_720.0, Unit::Plain, "717k"),
            (1.5e9, Unit::Plain, "1.5G"),
            (140e6, Unit::Ns, "140 ms"),
            (226_300.0, Unit::Ns, "226 µs"),
            (2.5e9, Unit::BytesPerSecond, "2.5 GB/s"),
            (1e12, Unit::BytesPerSecond, "1 TB/s"),
            (5e12, Unit::Bytes, "5 TB"),
            (32e6, Unit::Bytes, "32 MB"),
            (0.25, Unit::Share, "25 %"),
            (1e-6, Unit::Share, "1e-4 %"),
        ] {
            assert_eq!(number(value, unit), text, "{value}");
        }
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
