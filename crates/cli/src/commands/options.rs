//! Command-line options that stand for keys of the experiment.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use strobe_lab::ConfigError;

pub(super) const OUTPUT: &str = "More output";

/// Parses a seed. The largest integer of TOML is `i64::MAX`.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse().ok().filter(|&seed| i64::try_from(seed).is_ok());
    seed.ok_or_else(|| format!("a seed is a whole number from 0 to {}", i64::MAX))
}

pub(super) fn one_of<T: Copy + Send + Sync>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|&value| name(value)))
        .try_map(move |given| all.iter().copied().find(|&value| name(value) == given).ok_or("unknown name"))
}

/// Keys set by options. An error in a key names its option.
pub(super) struct Options {
    sets: Vec<String>,
    stand_for: Vec<(String, String)>,
}

impl Options {
    /// Starts with the values of `--set`; other options override them.
    pub(super) fn new(sets: &[String]) -> Self {
        Self { sets: sets.to_vec(), stand_for: Vec::new() }
    }

    pub(super) fn set(&mut self, set: String, option: String) {
        self.sets.push(set.clone());
        self.stand_for.push((set, option));
    }

    pub(super) fn key(&mut self, key: String, option: String) {
        self.stand_for.push((key, option));
    }

    pub(super) fn sets(&self) -> &[String] {
        &self.sets
    }

    pub(super) fn name_option<T>(&self, result: Result<T, ConfigError>) -> Result<T, ConfigError> {
        result.map_err(|error| error.attributed_to(&self.stand_for))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};
    use strobe_nand::Cause;

    use super::*;

    #[test]
    fn names_of_an_enum_are_the_values_of_an_option() {
        let option = || Arg::new("cause").long("cause").value_parser(one_of(&Cause::ALL, Cause::name));
        let given = |cause: &str| {
            let args = ["strobe", "--cause", cause];
            let found = Command::new("strobe").arg(option()).try_get_matches_from(args);
            found.map(|found| *found.get_one::<Cause>("cause").expect("given"))
        };
        for cause in Cause::ALL {
            assert_eq!(given(cause.name()).expect("its own name"), cause);
        }
        let error = given("gcc").expect_err("no such cause").to_string();
        assert!(error.contains("possible values: host, gc") && error.contains("similar"), "{error}");
    }
}
