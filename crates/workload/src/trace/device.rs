use std::fmt;

use super::TraceOptions;
use super::error::printable;

#[derive(Clone, Copy, Debug)]
pub(super) enum Device<'a> {
    Name(&'a str),
    /// Two columns, joined by a dot.
    Pair(&'a str, &'a str),
}

impl<'a> From<&'a str> for Device<'a> {
    fn from(name: &'a str) -> Self {
        Device::Name(name)
    }
}

impl Device<'_> {
    #[inline]
    fn is(&self, name: &str) -> bool {
        match *self {
            Device::Name(own) => own == name,
            Device::Pair(first, second) => name
                .strip_prefix(first)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| rest == second),
        }
    }
}

impl fmt::Display for Device<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Name(name) => f.write_str(name),
            Device::Pair(first, second) => write!(f, "{first}.{second}"),
        }
    }
}

#[derive(Debug)]
pub(super) enum DeviceFilter {
    /// Only the first device of the trace; another device is an error.
    Only(Option<String>),
    /// All devices, with the first and the second of them.
    All(Option<String>, Option<String>),
    Named {
        chosen: Vec<Chosen>,
        /// Index of the device of the last kept record.
        last: usize,
        others: Vec<String>,
    },
}

#[derive(Debug)]
pub(super) struct Chosen {
    name: String,
    offset: u64,
    is_found: bool,
    /// First byte and end of its requests, after the offset is added; `None` before the first.
    span: Option<(u64, u64)>,
}

/// Two placed devices whose requests share a part of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Device with the lower offset.
    pub first: String,
    /// The other device.
    pub second: String,
    /// Length of the shared part in bytes.
    pub bytes: u64,
    /// End of the requests of `first`: from this offset on, `second` does not overlap it.
    pub end: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Keep the record, with this offset added to its addresses.
    Keep(u64),
    Skip,
    Second {
        first: String,
        second: String,
    },
}

/// Most names that a message lists.
const NAMES_MAX: usize = 8;

impl DeviceFilter {
    pub(super) fn new(options: &TraceOptions) -> Self {
        let chosen =
            |name: &str, offset| Chosen { name: name.to_owned(), offset, is_found: false, span: None };
        match (&options.placed[..], options.device.as_deref()) {
            ([], None) => Self::Only(None),
            ([], Some("all")) => Self::All(None, None),
            ([], Some(name)) => Self::named(vec![chosen(name, 0)]),
            (placed, _) => {
                Self::named(placed.iter().map(|device| chosen(&device.name, device.offset)).collect())
            }
        }
    }

    fn named(chosen: Vec<Chosen>) -> Self {
        Self::Named { chosen, last: 0, others: Vec::new() }
    }

    #[inline]
    pub(super) fn judge(&mut self, device: Device<'_>) -> Verdict {
        match self {
            Self::All(_, Some(_)) => Verdict::Keep(0),
            Self::All(Some(first), second) => {
                if !device.is(first) {
                    *second = Some(device.to_string());
                }
                Verdict::Keep(0)
            }
            Self::Only(Some(first)) if device.is(first) => Verdict::Keep(0),
            Self::Only(Some(first)) => Verdict::Second { first: first.clone(), second: device.to_string() },
            Self::Only(first) | Self::All(first, _) => {
                *first = Some(device.to_string());
                Verdict::Keep(0)
            }
            Self::Named { chosen, last, others } => {
                if let Some(at) = chosen.iter().position(|chosen| device.is(&chosen.name)) {
                    *last = at;
                    chosen[at].is_found = true;
                    return Verdict::Keep(chosen[at].offset);
                }
                if others.len() < NAMES_MAX && !others.iter().any(|other| device.is(other)) {
                    others.push(device.to_string());
                }
                Verdict::Skip
            }
        }
    }

    /// Extends the span of the device of the last kept record, if devices are placed.
    #[inline]
    pub(super) fn extend(&mut self, from: u64, bytes: u64) {
        if let Self::Named { chosen, last, .. } = self
            && chosen.len() > 1
            && bytes > 0
        {
            let span = &mut chosen[*last].span;
            let (low, high) = span.unwrap_or((from, from));
            *span = Some((low.min(from), high.max(from + bytes)));
        }
    }

    /// Pairs of placed devices that overlap.
    pub(super) fn overlaps(&self) -> Vec<Overlap> {
        let Self::Named { chosen, .. } = self else { return Vec::new() };
        let mut spans: Vec<(&Chosen, u64, u64)> =
            chosen.iter().filter_map(|chosen| chosen.span.map(|(low, high)| (chosen, low, high))).collect();
        spans.sort_by_key(|(chosen, ..)| chosen.offset);
        let mut found = Vec::new();
        for (at, &(first, first_low, first_high)) in spans.iter().enumerate() {
            for &(second, second_low, second_high) in &spans[at + 1..] {
                let bytes = first_high.min(second_high).saturating_sub(first_low.max(second_low));
                if bytes > 0 {
                    let [first, second] = [first, second].map(|device| printable(device.name.as_bytes()));
                    found.push(Overlap { first, second, bytes, end: first_high });
                }
            }
        }
        found
    }

    /// A chosen device that the trace does not have, and devices that it has. These are empty if the records
    /// have no device.
    pub(super) fn missed(&self) -> Option<(&str, String)> {
        let Self::Named { chosen, others, .. } = self else { return None };
        let missed = chosen.iter().find(|chosen| !chosen.is_found)?;
        if others.iter().any(String::is_empty) {
            return Some((missed.name.as_str(), String::new()));
        }
        let found = chosen.iter().filter(|chosen| chosen.is_found).map(|chosen| &chosen.name);
        let names: Vec<String> =
            found.chain(others).map(|name| format!("`{}`", printable(name.as_bytes()))).collect();
        // A trace without records has no device at all.
        let and_more = if others.len() == NAMES_MAX { " and perhaps more" } else { "" };
        (!names.is_empty()).then(|| (missed.name.as_str(), names.join(", ") + and_more))
    }

    /// Two devices whose addresses overlap, if all were chosen.
    pub(super) fn overlapping(&self) -> Option<(&str, &str)> {
        match self {
            Self::All(Some(first), Some(second)) => Some((first, second)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::PlacedDevice;

    #[test]
    fn a_pair_is_recognised_by_its_joined_name_only() {
        let pair = Device::Pair("src1", "0");
        assert_eq!(pair.to_string(), "src1.0");
        assert!(pair.is("src1.0"));
        for wrong in ["src1", "src1.", "src10", "src1.00", "src1.1", ".0", ""] {
            assert!(!pair.is(wrong), "{wrong}");
        }
    }

    fn filter(device: Option<&str>, placed: &[(&str, u64)]) -> DeviceFilter {
        let placed =
            placed.iter().map(|&(name, offset)| PlacedDevice { name: name.into(), offset }).collect();
        DeviceFilter::new(&TraceOptions {
            device: device.map(str::to_owned),
            placed,
            ..TraceOptions::default()
        })
    }

    #[test]
    fn without_a_choice_a_second_device_is_named() {
        let mut filter = filter(None, &[]);
        assert_eq!(filter.judge("a".into()), Verdict::Keep(0));
        assert_eq!(filter.judge("a".into()), Verdict::Keep(0));
        let second = Verdict::Second { first: "a".into(), second: "b".into() };
        assert_eq!(filter.judge("b".into()), second);
        assert_eq!(filter.missed(), None);
    }

    #[test]
    fn choices_that_never_match_are_reported_with_what_there_is() {
        let mut one = filter(Some("b"), &[]);
        assert_eq!(one.missed(), None, "a trace without records");
        assert_eq!(["a", "c", "a"].map(|name| one.judge(name.into())), [(); 3].map(|()| Verdict::Skip));
        assert_eq!(one.missed(), Some(("b", "`a`, `c`".to_owned())));
        assert_eq!(one.judge("b".into()), Verdict::Keep(0));
        assert_eq!(one.missed(), None);
        let mut two = filter(None, &[("a", 0), ("b", 4096)]);
        assert_eq!(two.judge("a".into()), Verdict::Keep(0));
        assert_eq!(two.missed(), Some(("b", "`a`".to_owned())));
        assert_eq!(two.judge("b".into()), Verdict::Keep(4096));
        assert_eq!(two.missed(), None);
    }

    #[test]
    fn placed_devices_that_share_a_part_of_the_drive_are_found() {
        let mut filter = filter(None, &[("b", 8192), ("a", 0), ("c", 1 << 20)]);
        assert_eq!(filter.overlaps(), []);
        let mut write = |name: &str, from: u64, bytes: u64| {
            let Verdict::Keep(moved) = filter.judge(name.into()) else { panic!("{name} is placed") };
            filter.extend(moved + from, bytes);
            filter.overlaps()
        };
        assert_eq!(write("a", 0, 8192), []);
        assert_eq!(write("b", 0, 4096), []);
        assert_eq!(write("a", 1 << 20, 0), [], "a flush or an empty request touches nothing");
        let (first, second) = ("a".to_owned(), "b".to_owned());
        let overlap = Overlap { first, second, bytes: 1024, end: 9216 };
        assert_eq!(write("a", 8192, 1024), [overlap]);
    }

    #[test]
    fn all_devices_are_kept_and_two_that_overlap_are_named() {
        let mut filter = filter(Some("all"), &[]);
        for (name, expected) in [("a", None), ("a", None), ("b", Some(("a", "b"))), ("c", Some(("a", "b")))] {
            assert_eq!(filter.judge(name.into()), Verdict::Keep(0));
            assert_eq!(filter.overlapping(), expected);
        }
    }
}
