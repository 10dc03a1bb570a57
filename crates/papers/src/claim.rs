//! Claims of a paper, and verdicts on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::named;

named! {
    /// Agreement of a measurement with the paper.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict {
        /// Within the band.
        Reproduced => "reproduced",
        /// Outside the band, but in the direction that the paper claims.
        DirectionOnly => "direction only",
        /// Neither in the band nor in the direction.
        Missed => "missed",
        /// Follows from arithmetic or a fit, so it is no evidence.
        ByConstruction => "by construction",
        /// Not measured.
        NotRun => "not run",
    }
}

impl Verdict {
    /// True if the verdict counts in the tally, as evidence about the paper.
    pub fn counts(self) -> bool {
        matches!(self, Verdict::Reproduced | Verdict::DirectionOnly | Verdict::Missed)
    }
}

/// Band of values that reproduce a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Band {
    /// Lowest value; null is no limit.
    pub low: Option<f64>,
    /// Highest value; null is no limit.
    pub high: Option<f64>,
    /// Lowest and highest value that agree in direction. Null if the band itself is only a direction.
    pub direction: Option<[Option<f64>; 2]>,
    /// Reason for its width.
    pub reason: String,
    /// Previous form, if the band was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
}

fn within(value: f64, [low, high]: [Option<f64>; 2]) -> bool {
    !value.is_nan() && low.is_none_or(|low| value >= low) && high.is_none_or(|high| value <= high)
}

impl Band {
    fn new(low: Option<f64>, high: Option<f64>, direction: Option<[Option<f64>; 2]>, reason: &str) -> Self {
        Self { low, high, direction, reason: reason.to_owned(), was: None }
    }

    /// `value` ± `by`; the direction is the sign of `value`.
    pub(crate) fn around(value: f64, by: f64, reason: &str) -> Self {
        Self::from_neutral(value, by, 0.0, reason)
    }

    /// `value` ± the share `by` of it, for ratios; the direction is the side of 1.
    pub(crate) fn ratio(value: f64, by: f64, reason: &str) -> Self {
        Self::from_neutral(value, by * value, 1.0, reason)
    }

    fn from_neutral(value: f64, by: f64, neutral: f64, reason: &str) -> Self {
        let direction = if value > neutral { [Some(neutral), None] } else { [None, Some(neutral)] };
        Self::new(Some(value - by), Some(value + by), Some(direction), reason)
    }

    /// `value` ± `by` without a direction.
    pub(crate) fn level(value: f64, by: f64, reason: &str) -> Self {
        Self::new(Some(value - by), Some(value + by), None, reason)
    }

    pub(crate) fn range(low: f64, high: f64, direction: Option<[Option<f64>; 2]>, reason: &str) -> Self {
        Self::new(Some(low), Some(high), direction, reason)
    }

    pub(crate) fn at_least(low: f64, reason: &str) -> Self {
        Self::new(Some(low), None, None, reason)
    }

    pub(crate) fn at_most(high: f64, reason: &str) -> Self {
        Self::new(None, Some(high), None, reason)
    }

    #[must_use]
    pub(crate) fn was(self, before: &str) -> Self {
        Self { was: Some(before.to_owned()), ..self }
    }

    fn verdict(&self, measured: f64) -> Verdict {
        if within(measured, [self.low, self.high]) {
            Verdict::Reproduced
        } else if self.direction.is_some_and(|direction| within(measured, direction)) {
            Verdict::DirectionOnly
        } else {
            Verdict::Missed
        }
    }
}

/// Sentence of a paper behind a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quote {
    /// Section of the paper.
    pub section: String,
    /// The sentence, or its relevant part, in the paper's language.
    pub original: String,
    /// Translation into English.
    pub translation: String,
}

/// A claim of a paper as a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Id in the paper's claim table; not part of the JSON.
    #[serde(skip)]
    pub id: String,
    /// Figure, table or section of the paper.
    pub place: String,
    /// Text of the claim.
    pub claim: String,
    /// Original sentence; null if the paper is in English.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<Quote>,
    /// Unit of the numbers.
    pub unit: String,
    /// Number in the paper; null if the claim is only a direction.
    pub paper: Option<f64>,
    /// Measured value; null if not measured.
    pub measured: Option<f64>,
    /// Standard error of the measured value, if it is a mean of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Values that count as reproduced.
    pub band: Band,
    /// Verdict on the measured value.
    pub verdict: Verdict,
    /// Short reason: cause of a deviation, or construction that forces the value.
    pub why: String,
}

impl Claim {
    pub(crate) fn new(
        place: &str,
        claim: impl Into<String>,
        unit: &str,
        paper: Option<f64>,
        measured: Option<f64>,
        band: Band,
    ) -> Self {
        let verdict = measured.map_or(Verdict::NotRun, |measured| band.verdict(measured));
        let (place, unit) = (place.to_owned(), unit.to_owned());
        let (claim, why) = (claim.into(), String::new());
        Self {
            id: String::new(),
            place,
            claim,
            quote: None,
            unit,
            paper,
            measured,
            error: None,
            band,
            verdict,
            why,
        }
    }

    /// Marks a claim that must hold because of `why`. If it does not hold, it counts as missed.
    #[must_use]
    pub(crate) fn by_construction(mut self, why: &str) -> Self {
        match self.verdict {
            Verdict::Reproduced => {
                self.verdict = Verdict::ByConstruction;
                self.why = why.to_owned();
            }
            Verdict::DirectionOnly | Verdict::Missed => {
                self.verdict = Verdict::Missed;
                self.why = format!("not met, though by construction: {why}");
            }
            _ => {}
        }
        self
    }

    /// True if the paper gives a number, false if only a direction.
    pub fn is_number(&self) -> bool {
        self.paper.is_some()
    }

    pub(crate) fn is_consistent(&self) -> bool {
        let judged = self.measured.map_or(Verdict::NotRun, |measured| self.band.verdict(measured));
        match self.verdict {
            Verdict::ByConstruction => judged == Verdict::Reproduced,
            // A violated construction counts as missed.
            Verdict::Missed => matches!(judged, Verdict::Missed | Verdict::DirectionOnly),
            verdict => verdict == judged,
        }
    }

    /// Sets the reason if the claim was not reproduced.
    #[must_use]
    pub(crate) fn because(mut self, why: &str) -> Self {
        if matches!(self.verdict, Verdict::Missed | Verdict::DirectionOnly) {
            self.why = why.to_owned();
        }
        self
    }

    #[must_use]
    pub(crate) fn noted(mut self, why: &str) -> Self {
        if self.verdict != Verdict::NotRun && self.why.is_empty() {
            self.why = why.to_owned();
        }
        self
    }

    /// Sets the standard error; the reason then notes if another verdict lies within it.
    #[must_use]
    pub(crate) fn give_or_take(mut self, error: Option<f64>) -> Self {
        self.error = error;
        // A verdict that changes within one standard error is marked.
        let other = self.measured.zip(error).and_then(|(measured, error)| {
            let at = [measured - error, measured + error].map(|value| self.band.verdict(value));
            at.into_iter().find(|&verdict| verdict != self.band.verdict(measured))
        });
        if let Some(other) = other.filter(|_| self.verdict.counts()) {
            let before = if self.why.is_empty() { "" } else { "; " };
            self.why += &format!("{before}within its error it would be \"{}\"", other.name());
        }
        self
    }

    #[must_use]
    pub(crate) fn unless_run(mut self, why: &str) -> Self {
        if self.verdict == Verdict::NotRun {
            self.why = why.to_owned();
        }
        self
    }
}

/// Formats claims as CSV.
pub fn csv(claims: &[Claim]) -> String {
    let mut out =
        "place,claim,section,original,translation,unit,paper,measured,error,band_low,band_high,band_reason,band_was,\
         verdict,why\n"
            .to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for claim in claims {
        let Band { low, high, reason, was, .. } = &claim.band;
        let quote = |part: fn(&Quote) -> &String| claim.quote.as_ref().map(part).map_or("", String::as_str);
        let quoted = [quote(|of| &of.section), quote(|of| &of.original), quote(|of| &of.translation)];
        let texts = [&*claim.place, &*claim.claim].into_iter().chain(quoted).chain([&*claim.unit]);
        let texts = texts.map(super::figure::field);
        let numbers = [claim.paper, claim.measured, claim.error, *low, *high].map(number);
        let was = was.as_deref().unwrap_or_default();
        let rest = [reason, was, claim.verdict.name(), &claim.why].map(super::figure::field);
        let fields: Vec<String> = texts.chain(numbers).chain(rest).collect();
        out += &(fields.join(",") + "\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(measured: Option<f64>, band: Band) -> Verdict {
        Claim::new("4", "c", "%", None, measured, band).verdict
    }

    #[test]
    fn a_verdict_is_where_the_measurement_lies() {
        let about = || Band::around(73.0, 10.0, "r");
        assert_eq!(judged(Some(63.0), about()), Verdict::Reproduced);
        assert_eq!(judged(Some(83.1), about()), Verdict::DirectionOnly);
        assert_eq!(judged(Some(0.1), about()), Verdict::DirectionOnly);
        assert_eq!(judged(Some(-0.1), about()), Verdict::Missed);
        assert_eq!(judged(Some(f64::NAN), about()), Verdict::Missed);
        assert_eq!(judged(None, about()), Verdict::NotRun);
        let less = || Band::around(-18.0, 5.0, "r");
        assert_eq!(judged(Some(-40.0), less()), Verdict::DirectionOnly);
        assert_eq!(judged(Some(1.0), less()), Verdict::Missed);
        let ratio = || Band::ratio(3.0, 0.2, "r");
        assert_eq!(judged(Some(3.5), ratio()), Verdict::Reproduced);
        assert_eq!(judged(Some(1.1), ratio()), Verdict::DirectionOnly);
        assert_eq!(judged(Some(0.9), ratio()), Verdict::Missed);
        assert_eq!(judged(Some(5.0), Band::level(4.0, 0.5, "r")), Verdict::Missed);
        assert_eq!(judged(Some(0.5), Band::at_least(0.0, "r")), Verdict::Reproduced);
        assert_eq!(judged(Some(0.5), Band::at_most(0.0, "r")), Verdict::Missed);
    }

    #[test]
    fn what_was_fitted_is_no_evidence_and_is_missed_when_the_fit_does_not_hold() {
        let fitted = |measured| {
            Claim::new("3", "c", "times", Some(30.0), measured, Band::ratio(30.0, 0.05, "r"))
                .by_construction("fitted")
        };
        assert_eq!(fitted(Some(30.4)).verdict, Verdict::ByConstruction);
        assert!(!fitted(Some(30.4)).verdict.counts());
        let off = fitted(Some(20.9));
        assert!(off.verdict == Verdict::Missed && off.why.starts_with("not met"), "{off:?}");
        assert_eq!(fitted(None).verdict, Verdict::NotRun);
    }

    #[test]
    fn a_verdict_that_hangs_on_the_error_says_so() {
        let of = |measured, error| {
            Claim::new("3", "c", "times", None, Some(measured), Band::at_least(1.0, "r"))
                .because("b")
                .give_or_take(error)
        };
        assert_eq!((of(1.2, Some(0.1)).why.as_str(), of(0.8, Some(0.1)).why.as_str()), ("", "b"));
        assert_eq!(of(1.05, Some(0.1)).why, "within its error it would be \"missed\"");
        assert_eq!(of(0.95, Some(0.1)).why, "b; within its error it would be \"reproduced\"");
        assert_eq!((of(0.95, None).why.as_str(), of(0.95, Some(0.1)).verdict), ("b", Verdict::Missed));
        let text = csv(&[of(1.2, Some(0.1))]);
        assert!(text.ends_with("3,c,,,,times,,1.2,0.1,1,,r,,reproduced,\n"), "{text}");
    }

    #[test]
    fn reasons_stand_where_they_belong() {
        let of = |measured| {
            Claim::new("3", "c", "%", None, measured, Band::at_least(0.0, "r")).because("b").unless_run("u")
        };
        assert_eq!(of(Some(1.0)).why, "");
        assert_eq!(of(Some(-1.0)).why, "b");
        assert_eq!(of(None).why, "u");
        let text = csv(&[of(Some(-1.0))]);
        assert!(text.ends_with("3,c,,,,%,,-1,,0,,r,,missed,b\n"), "{text}");
    }
}
