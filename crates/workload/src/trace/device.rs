use std::fmt;

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
    All,
    Named {
        name: String,
        found: bool,
        other: Option<String>,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    Skip,
    Second { first: String, second: String },
}

impl DeviceFilter {
    pub(super) fn new(choice: Option<&str>) -> Self {
        match choice {
            None => Self::Only(None),
            Some("all") => Self::All,
            Some(name) => Self::Named { name: name.into(), found: false, other: None },
        }
    }

    #[inline]
    pub(super) fn judge(&mut self, device: Device<'_>) -> Verdict {
        match self {
            Self::All => Verdict::Keep,
            Self::Only(Some(first)) if device.is(first) => Verdict::Keep,
            Self::Only(Some(first)) => Verdict::Second { first: first.clone(), second: device.to_string() },
            Self::Only(first) => {
                *first = Some(device.to_string());
                Verdict::Keep
            }
            Self::Named { name, found, other } => {
                if device.is(name) {
                    *found = true;
                    return Verdict::Keep;
                }
                other.get_or_insert_with(|| device.to_string());
                Verdict::Skip
            }
        }
    }

    pub(super) fn missed(&self) -> Option<(&str, &str)> {
        match self {
            Self::Named { name, found: false, other: Some(other) } => Some((name, other)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_recognised_by_its_joined_name_only() {
        let pair = Device::Pair("src1", "0");
        assert_eq!(pair.to_string(), "src1.0");
        assert!(pair.is("src1.0"));
        for wrong in ["src1", "src1.", "src10", "src1.00", "src1.1", ".0", ""] {
            assert!(!pair.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn without_a_choice_a_second_device_is_named() {
        let mut filter = DeviceFilter::new(None);
        assert_eq!(filter.judge("a".into()), Verdict::Keep);
        assert_eq!(filter.judge("a".into()), Verdict::Keep);
        let second = Verdict::Second { first: "a".into(), second: "b".into() };
        assert_eq!(filter.judge("b".into()), second);
        assert_eq!(filter.missed(), None);
    }

    #[test]
    fn a_choice_that_never_matches_is_reported() {
        let mut filter = DeviceFilter::new(Some("b"));
        assert_eq!(filter.judge("a".into()), Verdict::Skip);
        assert_eq!(filter.judge("c".into()), Verdict::Skip);
        assert_eq!(filter.missed(), Some(("b", "a")));
        assert_eq!(filter.judge("b".into()), Verdict::Keep);
        assert_eq!(filter.missed(), None);
    }
}
