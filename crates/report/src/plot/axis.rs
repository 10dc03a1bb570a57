//! Axes: positions of values, and tick labels.

use crate::text::{Unit, number};

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) is_log: bool,
    /// Tick values used instead of round ones if all labels fit.
    pub(crate) written: Vec<f64>,
}

const APART: f64 = 36.0;

impl Axis {
    pub(crate) fn new(label: &str, unit: Unit) -> Self {
        Self { label: label.to_owned(), unit, is_log: false, written: Vec::new() }
    }

    /// Axis with the words of a key as label, and the unit of its suffix.
    pub(crate) fn named(name: &str) -> Self {
        let last = name.rsplit('.').next().unwrap_or(name);
        let known = [("waf", "Write amplification"), ("over_provisioning", "Over-provisioning")];
        let units = [
            ("over_provisioning", "", Unit::Share),
            ("_fraction", "", Unit::Share),
            ("_ns", "_ns", Unit::Ns),
            ("bw_bytes", "_bytes", Unit::BytesPerSecond),
            ("_bytes", "_bytes", Unit::Bytes),
        ];
        let unit = units.into_iter().find(|(end, ..)| last.ends_with(end));
        let (cut, unit) = unit.map_or(("", Unit::Plain), |(_, cut, unit)| (cut, unit));
        if let Some((_, label)) = known.into_iter().find(|(known, _)| *known == last) {
            return Self::new(label, unit);
        }
        // A configuration key is clear without its table; a result column is not.
        let is_key = ["drive.", "workload.", "run."].into_iter().any(|table| name.starts_with(table));
        let words = if is_key { last } else { name };
        let words = words.strip_suffix(cut).unwrap_or(words).replace(['_', '.'], " ");
        let mut letters = words.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string());
        Self::new(&(first.unwrap_or_default() + letters.as_str()), unit)
    }

    /// Sets tick values, used only if all labels fit.
    pub(crate) fn with(self, mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        values.dedup();
        Self { written: values, ..self }
    }

    pub(crate) fn log(self) -> Self {
        Self { is_log: true, ..self }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    unit: Unit,
    from: f64,
    to: f64,
}

/// Maximum decades of an axis; lower values are cut off.
const DECADES_MAX: f64 = 12.0;

impl Scale {
    /// With `has_zero` the axis starts at 0, or lower for negative values.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        has_zero: bool,
        (from, to): (f64, f64),
    ) -> Self {
        let usable = values.filter(|&value| value.is_finite() && (!axis.is_log || value > 0.0));
        let (mut low, mut high) =
            usable.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = if axis.is_log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if axis.is_log {
            // Both ends are whole decades.
            let decade = |value: f64, up: bool| {
                let exponent = libm::log10(value);
                let whole = if up { libm::ceil(exponent - 1e-9) } else { libm::floor(exponent + 1e-9) };
                libm::pow(10.0, whole)
            };
            (low, high) = (decade(low, false), decade(high, true));
            low = low.max(high * libm::pow(10.0, -DECADES_MAX));
            if high <= low {
                high = low * 10.0;
            }
        } else {
            if has_zero {
                low = low.min(0.0);
            }
            if high <= low {
                high = low + if low == 0.0 { 1.0 } else { low.abs() };
            }
            if has_zero {
                // Margin above the highest value.
                high += (high - low) * 0.05;
            }
        }
        Self { low, high, is_log: axis.is_log, unit: axis.unit, from, to }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            libm::log10(value.max(self.low) / self.low) / libm::log10(self.high / self.low)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Ticks: the given values if they fit, else about `most` round ones.
    pub(super) fn ticks_of(&self, axis: &Axis, most: usize) -> Vec<(f64, String)> {
        let fits = axis.written.windows(2).all(|two| self.place(two[1]) - self.place(two[0]) >= APART);
        if axis.written.is_empty() || !fits {
            return self.ticks(most);
        }
        axis.written.iter().map(|&value| (value, number(value, self.unit))).collect()
    }

    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let values: Vec<f64> = if self.is_log {
            let decades = libm::round(libm::log10(self.high / self.low)) as usize;
            let step = decades.div_ceil(most).max(1);
            (0..=decades).step_by(step).map(|at| self.low * libm::pow(10.0, at as f64)).collect()
        } else {
            let least = step((self.high - self.low) / most as f64);
            // Bytes have no fractions.
            let step = if self.unit == Unit::Bytes { least.max(1.0) } else { least };
            let first = libm::ceil(self.low / step - 1e-9);
            (0..=2 * most)
                .map(|at| (first + at as f64) * step)
                .take_while(|&value| value <= self.high + step * 1e-9)
                .collect()
        };
        values.into_iter().map(|value| (value, number(value, self.unit))).collect()
    }
}

/// Smallest of 1, 2, 5, 10 … that is at least `least`.
fn step(least: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(least)));
    let of = [1.0, 2.0, 5.0, 10.0].into_iter().find(|of| of * power >= least * (1.0 - 1e-9));
    of.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_named_in_words_and_have_units() {
        for (name, label, unit) in [
            ("waf", "Write amplification", Unit::Plain),
            ("drive.ftl.over_provisioning", "Over-provisioning", Unit::Share),
            ("drive.controller.write_buffer_bytes", "Write buffer", Unit::Bytes),
            ("drive.ftl.gc.net_blocks", "Net blocks", Unit::Plain),
            ("workload.write_fraction", "Write fraction", Unit::Share),
            ("write.p99_ns", "Write p99", Unit::Ns),
            ("read.bw_bytes", "Read bw", Unit::BytesPerSecond),
        ] {
            let axis = Axis::named(name);
            assert_eq!((axis.label.as_str(), axis.unit), (label, unit), "{name}");
        }
    }

    #[test]
    fn an_axis_has_the_values_of_its_points_where_they_fit() {
        let texts = |values: &[f64]| {
            let axis = Axis::named("drive.ftl.over_provisioning").with(values.to_vec());
            let scale = Scale::new(&axis, values.iter().copied(), false, (0.0, 370.0));
            scale.ticks_of(&axis, 6).into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(texts(&[0.28, 0.07, 0.15, 0.07]), ["7 %", "15 %", "28 %"]);
        // Labels one per cent apart do not fit: round values instead.
        assert_eq!(texts(&[0.07, 0.08, 0.28]), ["10 %", "15 %", "20 %", "25 %"]);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        for (low, high) in [(0.0, 1.0), (-3.0, 17.0), (1e9, 3e9), (1.0, 1.0), (0.0, 0.0), (0.001, 0.0013)] {
            let scale = Scale::new(&Axis::new("", Unit::Plain), [low, high].into_iter(), false, (0.0, 100.0));
            let ticks = scale.ticks(5);
            assert!((2..=8).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
            assert!(ticks.iter().all(|(value, _)| (-1e-6..=100.0 + 1e-6).contains(&scale.place(*value))));
        }
        let nothing = Scale::new(&Axis::new("", Unit::Bytes), [0.0].into_iter(), true, (0.0, 100.0));
        let texts: Vec<String> = nothing.ticks(5).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["0 B", "1 B"]);
        let log =
            Scale::new(&Axis::new("", Unit::Ns).log(), [150.0, 2e6, 0.0].into_iter(), false, (0.0, 5.0));
        assert_eq!(log.ticks(5).len(), 6);
        assert!((log.place(1e4) - 2.0).abs() < 1e-9);
        assert_eq!(log.place(0.0), 0.0);
    }
}
