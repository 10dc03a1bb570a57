//! Options of the command line that stand for keys of the experiment.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use strobe_lab::ConfigError;

/// Heading of options for further results.
pub(super) const OUTPUT: &str = "More output";

/// A seed that is given on the command line; TOML has no larger numbers.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse().ok().filter(|&seed| i64::try_from(seed).is_ok());
    seed.ok_or_else(|| format!("a seed is a whole number from 0 to {}", i64::MAX))
}

/// Parser of an option that takes the name of one of `all`.
pub(super) fn one_of<T: Copy + Send + Sync>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|&value| name(value))).try_map(move |given| {
        all.iter().copied().find(|&value| name(value) == given).ok_or("none of these names")
    })
}

/// Settings from `--set` and from options that stand for one. Errors name the option that the user gave.
pub(super) struct Options {
    sets: Vec<String>,
    /// Settings and keys, with the options that stand for them.
    stand_for: Vec<(String, String)>,
}

impl Options {
    /// The values of `--set`; other options prevail over them.
    pub(super) fn new(sets: &[String]) -> Self {
        Self { sets: sets.to_vec(), stand_for: Vec::new() }
    }

    /// `option` stands for `--set` with the value `set`.
    pub(super) fn set(&mut self, set: String, option: String) {
        self.sets.push(set.clone());
        self.stand_for.push((set, option));
    }

    /// `option` has put `key` into the experiment's table.
    pub(super) fn key(&mut self, key: String, option: String) {
        self.stand_for.push((key, option));
    }

    pub(super) fn sets(&self) -> &[String] {
        &self.sets
    }

    /// `result` with an error that names the option that is to blame.
    pub(super) fn told<T>(&self, result: Result<T, ConfigError>) -> Result<T, ConfigError> {
        result.map_err(|error| error.told_by(&self.stand_for))
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
