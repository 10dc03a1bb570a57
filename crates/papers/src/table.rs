//! Claims of a paper as data: a TOML table, and measured values.
//!
//! The file `claims.toml` in a paper's folder has place, sentence, number and band of each claim. Code
//! computes a value for each claim id; [`Values::judged`] combines table and values.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Band, Claim, Quote};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    claim: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    place: String,
    claim: String,
    quote: Option<Quote>,
    unit: String,
    paper: Option<f64>,
    band: Limits,
    reason: String,
    was: Option<String>,
    by_construction: Option<String>,
    because: Option<String>,
    noted: Option<String>,
    unless_run: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Limits {
    Around(f64),
    Share(f64),
    Level(f64),
    LevelShare(f64),
    Range { low: f64, high: f64, direction: Option<[f64; 2]> },
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy, Default)]
struct Measured {
    value: Option<f64>,
    error: Option<f64>,
    /// Upper end of the direction, if it was measured as well.
    limit: Option<f64>,
}

#[derive(Default)]
pub(crate) struct Values {
    measured: BTreeMap<String, Measured>,
    /// Replacements for `{name}` in the table's reasons.
    texts: BTreeMap<&'static str, String>,
}

/// Id of `name`: its letters and digits in lower case, with hyphens between.
fn id(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

impl Values {
    pub(crate) fn add(&mut self, name: &str, value: Option<f64>) {
        self.add_with_error(name, value, None);
    }

    pub(crate) fn add_with_error(&mut self, name: &str, value: Option<f64>, error: Option<f64>) {
        self.measured.insert(id(name), Measured { value, error, limit: None });
    }

    pub(crate) fn limit(&mut self, name: &str, limit: Option<f64>) {
        self.measured.entry(id(name)).or_default().limit = limit;
    }

    pub(crate) fn text(&mut self, name: &'static str, text: String) {
        self.texts.insert(name, text);
    }

    /// Returns the added claims of `table` in its order; `missing` is the reason for those not run.
    ///
    /// # Panics
    ///
    /// If an id is not in the table: the table is part of the program.
    pub(crate) fn judged(self, table: &str, missing: &str) -> Vec<Claim> {
        // A value without an entry would be lost silently.
        let table = entries(table);
        if let Some(stray) = self.measured.keys().find(|id| table.iter().all(|entry| entry.id != **id)) {
            panic!("claims.toml: no claim has the id \"{stray}\"");
        }
        let judged = |entry: &Entry| Some(self.judge(entry, *self.measured.get(&entry.id)?, missing));
        table.iter().filter_map(judged).collect()
    }

    fn judge(&self, entry: &Entry, measured: Measured, missing: &str) -> Claim {
        let filled = |text: &str| {
            self.texts
                .iter()
                .fold(text.to_owned(), |text, (name, with)| text.replace(&format!("{{{name}}}"), with))
        };
        let Entry { place, claim, unit, paper, .. } = entry;
        let mut claim =
            Claim::new(place, claim.as_str(), unit, *paper, measured.value, entry.band(measured.limit));
        if let Some(why) = &entry.by_construction {
            claim = claim.by_construction(&filled(why));
        }
        if let Some(why) = &entry.because {
            claim = claim.because(&filled(why));
        }
        if let Some(why) = &entry.noted {
            claim = claim.noted(&filled(why));
        }
        claim.id.clone_from(&entry.id);
        claim.quote.clone_from(&entry.quote);
        claim.give_or_take(measured.error).unless_run(entry.unless_run.as_deref().unwrap_or(missing))
    }
}

impl Entry {
    fn band(&self, limit: Option<f64>) -> Band {
        let (paper, reason) = (self.paper.unwrap_or_default(), self.reason.as_str());
        let band = match self.band {
            Limits::Around(by) => Band::around(paper, by, reason),
            Limits::Share(by) => Band::ratio(paper, by, reason),
            Limits::Level(by) => Band::level(paper, by, reason),
            Limits::LevelShare(by) => Band::level(paper, by * paper, reason),
            Limits::Range { low, high, direction } => {
                let finite = |[low, high]: [f64; 2]| {
                    let high = limit.unwrap_or(high);
                    [low, high].map(|end| Some(end).filter(|end| end.is_finite()))
                };
                Band::range(low, high, direction.map(finite), reason)
            }
            Limits::AtLeast(low) => Band::at_least(low, reason),
            Limits::AtMost(high) => Band::at_most(high, reason),
        };
        match &self.was {
            Some(before) => band.was(before),
            None => band,
        }
    }
}

fn entries(table: &str) -> Vec<Entry> {
    let Table { claim } = toml::from_str(table).expect("the tables are parsed by tests");
    claim
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Verdict;

    const TABLES: [&str; 5] = [
        include_str!("capi/claims.toml"),
        include_str!("logical_copy/claims.toml"),
        include_str!("nvram/claims.toml"),
        include_str!("placement/claims.toml"),
        include_str!("trim/claims.toml"),
    ];

    /// Checks that each claim of `table` is computed; [`Values::judged`] checks the reverse.
    #[track_caller]
    pub(crate) fn assert_all_computed(table: &str, computed: &[Claim]) {
        let computed: BTreeSet<&str> = computed.iter().map(|claim| claim.id.as_str()).collect();
        for entry in entries(table) {
            assert!(computed.contains(entry.id.as_str()), "{} is computed nowhere", entry.id);
        }
    }

    pub(crate) fn paper(table: &str, id: &str) -> Option<f64> {
        entries(table).into_iter().find(|entry| entry.id == id).and_then(|entry| entry.paper)
    }

    #[test]
    fn tables_are_in_order() {
        for table in TABLES {
            let mut seen = BTreeSet::new();
            for entry in entries(table) {
                assert_eq!(entry.id, id(&entry.id));
                assert!(seen.insert(entry.id.clone()), "{} is there twice", entry.id);
                let needs_paper = matches!(
                    entry.band,
                    Limits::Around(_) | Limits::Share(_) | Limits::Level(_) | Limits::LevelShare(_)
                );
                assert!(!needs_paper || entry.paper.is_some(), "{}: a band around nothing", entry.id);
                let band = entry.band(None);
                assert!(band.low.is_none_or(|low| band.high.is_none_or(|high| low <= high)), "{}", entry.id);
                assert!(!band.reason.is_empty() && !entry.unit.is_empty(), "{}", entry.id);
            }
        }
    }

    // Papers in Korean are quoted for each claim.
    #[test]
    fn claims_have_the_sentence_that_they_rest_on() {
        let is_korean = |text: &str| text.chars().any(|letter| ('가'..='힣').contains(&letter));
        let is_whole = |Quote { section, original, translation }: &Quote| {
            !section.is_empty() && is_korean(original) && !is_korean(translation) && translation.len() > 15
        };
        let [capi, logical_copy, nvram, _, trim] = TABLES;
        for entry in [capi, nvram, trim].into_iter().flat_map(entries) {
            assert!(entry.quote.is_some(), "{} rests on no sentence", entry.id);
        }
        for entry in [capi, logical_copy, nvram, trim].into_iter().flat_map(entries) {
            assert!(entry.quote.as_ref().is_none_or(is_whole), "{}: {:?}", entry.id, entry.quote);
        }
    }

    const TABLE: &str = "
        [[claim]]
        id = 'copy-tar'
        place = '3'
        claim = 'c'
        unit = '%'
        paper = 10.0
        band = { around = 2.0 }
        reason = 'r'
        was = 'w'
        because = 'at {place}'
        [[claim]]
        id = 'spread'
        place = '4'
        claim = 'd'
        unit = 'times'
        band = { range = { low = 1.0, high = 2.0, direction = [0.5, inf] } }
        reason = 's'
        unless_run = 'own'";

    #[test]
    fn values_are_judged_by_the_table() {
        let mut values = Values::default();
        values.add("spread", Some(3.0));
        values.add_with_error("Copy&tar", Some(12.5), Some(1.0));
        values.text("place", "29".to_owned());
        let claims = values.judged(TABLE, "missing");
        let [copy, spread] = &claims[..] else { panic!("{claims:?}") };
        assert_eq!(copy.verdict, Verdict::DirectionOnly);
        assert_eq!(copy.why, "at 29; within its error it would be \"reproduced\"");
        assert_eq!((copy.band.low, copy.band.high), (Some(8.0), Some(12.0)));
        assert_eq!(copy.band.was.as_deref(), Some("w"));
        assert_eq!(
            (spread.verdict, spread.band.direction),
            (Verdict::DirectionOnly, Some([Some(0.5), None]))
        );
    }

    #[test]
    fn the_direction_may_end_at_a_value() {
        let mut values = Values::default();
        values.add("spread", Some(3.0));
        values.limit("spread", Some(2.5));
        let claims = values.judged(TABLE, "");
        assert_eq!((claims.len(), claims[0].verdict), (1, Verdict::Missed));
    }

    #[test]
    fn the_reason_of_a_claim_that_was_not_run_may_be_its_own() {
        let mut values = Values::default();
        values.add("spread", None);
        values.add("copy-tar", None);
        let whys: Vec<String> = values.judged(TABLE, "missing").into_iter().map(|claim| claim.why).collect();
        assert_eq!(whys, ["missing", "own"]);
    }

    #[test]
    #[should_panic = "no claim has the id \"copy-tra\""]
    fn a_value_without_a_claim_is_a_bug() {
        let mut values = Values::default();
        values.add("copy tra", None);
        let _ = values.judged(TABLE, "");
    }
}
