//! Origin of a refused key: the file, or a command-line option.

use toml::Table;

use super::settings::{canonical, find};
use crate::ConfigError;

impl ConfigError {
    fn key(&self) -> Option<&str> {
        match self {
            Self::Key(error) => Some(error.key()),
            Self::NoEffect { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Attributes the error to the option that caused it. `refusal` returns the error with a prefix of `sets`
    /// applied.
    pub(super) fn blamed(
        self,
        table: &Table,
        sets: &[String],
        refusal: impl Fn(&[String]) -> Option<Self>,
    ) -> Self {
        match self.culprit(table, sets, refusal) {
            Some(set) => self.given_by_set(set),
            None => self,
        }
    }

    pub(crate) fn given_by_set(self, set: &str) -> Self {
        Self::Given { option: format!("--set {set}"), error: Box::new(self) }
    }

    fn culprit<'a>(
        &self,
        table: &Table,
        sets: &'a [String],
        refusal: impl Fn(&[String]) -> Option<Self>,
    ) -> Option<&'a str> {
        // An error in a plain list element is attributed to the list. Elements that are tables have keys.
        let key = self.key()?;
        let is_plain_element = key.rsplit('.').next().is_some_and(|last| last.contains('['));
        let key = if is_plain_element { &key[..key.rfind('[').unwrap_or(key.len())] } else { key };
        let is_there = find(table, key).is_some();
        let names = |set: &&String| {
            let path = canonical(table, set.split('=').next().unwrap_or_default());
            is_at_or_below(key, &path) || (!is_there && is_at_or_below(&path, key))
        };
        if let Some(set) = sets.iter().rfind(names) {
            return Some(set);
        }
        if is_there {
            return None;
        }
        // A key in neither file nor options was derived from others: from fio's names, or because a kind of
        // workload needs it. The culprit is the first option that makes the error appear.
        let message = self.to_string();
        let is_found =
            |applied: usize| refusal(&sets[..applied]).is_some_and(|error| error.to_string() == message);
        let applied = (0..=sets.len()).find(|&applied| is_found(applied))?;
        applied.checked_sub(1).map(|last| sets[last].as_str())
    }

    /// Rewords the error in terms of the user's own options. `options` pairs each setting (as `--set` takes
    /// it) or key with the option that set it.
    #[must_use]
    pub fn attributed_to(self, options: &[(String, String)]) -> Self {
        let given = match &self {
            Self::Given { option, .. } => option.strip_prefix("--set "),
            other => other.key(),
        };
        match options.iter().find(|(stands_for, _)| given == Some(stands_for)) {
            Some((_, option)) => {
                let error = if let Self::Given { error, .. } = self { error } else { Box::new(self) };
                Self::Given { option: option.clone(), error }
            }
            None => self,
        }
    }

    /// Names the file, unless an option is named already.
    pub(crate) fn found_in(self, path: String) -> Self {
        match self {
            Self::Given { .. } | Self::BadSet(_) => self,
            error => Self::In { path, error: Box::new(error) },
        }
    }
}

fn is_at_or_below(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use strobe_ssd::KeyError;
    use strobe_ssd::schema::short;

    use super::*;
    use crate::Experiment;

    fn refusal(text: &str, sets: &[&str]) -> String {
        let table = text.parse().expect("TOML");
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Experiment::from_table(table, &sets, Path::new("")).expect_err(text).to_string()
    }

    #[test]
    fn the_option_that_gave_a_key_is_named() {
        for (text, sets, expected) in [
            ("", &["foo=1"][..], "--set foo=1: unknown key foo"),
            ("", &["seed=2", "run.mesure=3", "seed=3"], "--set run.mesure=3: unknown key run.mesure"),
            ("[workload]\nqueue_depth=4", &["workload.queue_depth=0"], "--set workload.queue_depth=0: "),
            ("", &["workload.queue_depth=4", "workload.queue_depth=0"], "--set workload.queue_depth=0: "),
            ("", &["workload.iodepth=0"], "--set workload.iodepth=0: workload.queue_depth = 0: "),
            ("", &[" drive . nand.channels = 0"], "--set  drive . nand.channels = 0: drive.nand.channels"),
            ("", &["drive={nand={channels=0}}"], "--set drive={nand={channels=0}}: drive.nand.channels"),
            ("", &["drive.nand=3"], "--set drive.nand=3: must be a table. The flash chips."),
            ("", &["workload.kind=zip"], "--set workload.kind=zip: not known; did you mean zipf?"),
            ("", &["run.timing=maybe"], "--set run.timing=maybe: must be true or false"),
            ("", &["seed.x=3"], "--set seed.x=3: seed = "),
            ("seed=1", &["seed.x=3"], "--set seed.x=3: seed is not a table"),
            ("", &["worklod.kind=zipf"], "--set worklod.kind=zipf: unknown key worklod"),
            ("", &["seed=2", "workload.kind=trace"], "--set workload.kind=trace: workload.path is missing"),
            ("", &["seed"], "--set seed: expected KEY.PATH=VALUE"),
        ] {
            let error = refusal(text, sets);
            assert!(error.starts_with(expected), "{text} {sets:?}: {error}");
        }
    }

    #[test]
    fn what_the_file_says_is_not_blamed_on_an_option() {
        for (text, sets, expected) in [
            ("foo=1", &["seed=2"][..], "unknown key foo"),
            ("[workload]\nqueue_depth=0", &["workload.block_bytes=512"], "workload.queue_depth = 0"),
            ("[workload]\nkind=\"trace\"\nformat=\"blkparce\"", &["workload.path=t"], "workload.format = "),
            ("[worklod]\nkind=\"zipf\"", &["worklod.theta=1"], "unknown key worklod"),
            ("[workload]\nkind=\"trace\"", &["seed=2"], "workload.path is missing"),
        ] {
            let error = refusal(text, sets);
            assert!(error.starts_with(expected), "{text} {sets:?}: {error}");
        }
    }

    #[test]
    fn an_option_of_its_own_is_named_instead() {
        let bad = |key: &str| ConfigError::Key(KeyError::value(key, "0", "more", ""));
        let given =
            |set: &str| ConfigError::Given { option: format!("--set {set}"), error: Box::new(bad("a.b")) };
        let options = [("a.b=0", "--bee 0"), ("a.c", "--sea")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let text = |error: ConfigError| error.attributed_to(&options).to_string();
        assert!(text(given("a.b=0")).starts_with("--bee 0: a.b = 0"));
        assert!(text(given("a.b= 0")).starts_with("--set a.b= 0: a.b = 0"));
        assert!(text(bad("a.c")).starts_with("--sea: a.c = 0"));
        assert!(text(bad("a.b")).starts_with("a.b = 0"));
    }

    #[test]
    fn endless_values_are_cut() {
        let error = refusal("", &[&format!("workload.kind={}", "x".repeat(1000))]);
        assert!(
            error.len() < 500 && error.contains("xxx...") && error.contains("known are uniform"),
            "{error}"
        );
        assert_eq!(short("é".repeat(81).as_str()), format!("{}...", "é".repeat(80)));
    }
}
