//! Seeds that each configuration is run with.

use toml::Value;

use crate::SweepError;

/// Most seeds of a configuration.
const SEEDS_MAX: u64 = 10_000;

/// The seeds of each configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Seeds {
    /// All that may be run, in this order.
    pub all: Vec<u64>,
    /// So many are run in any case; the rest only until the interval is narrow enough.
    pub first: usize,
    /// Half the width of the interval of the first measure, as a share of its mean, that is narrow enough; nothing if
    /// all seeds are run.
    pub until: Option<f64>,
}

impl Seeds {
    /// From the keys `seeds`, `seeds_max` and `until` of `[sweep]`; `from` is the seed of the experiment.
    pub(crate) fn read(
        seeds: Option<&Value>,
        most: Option<&Value>,
        until: Option<&Value>,
        from: u64,
    ) -> Result<Self, SweepError> {
        let wrong = || {
            let what = format!("allowed is a number from 1 to {SEEDS_MAX}, or a list of different seeds");
            SweepError::key("seeds", what)
        };
        let count = |value: &Value| {
            value
                .as_integer()
                .and_then(|count| u64::try_from(count).ok())
                .filter(|count| (1..=SEEDS_MAX).contains(count))
        };
        let listed: Option<Vec<u64>> = match seeds {
            Some(Value::Array(items)) => {
                let seeds: Option<Vec<u64>> = items
                    .iter()
                    .map(|seed| seed.as_integer().and_then(|seed| u64::try_from(seed).ok()))
                    .collect();
                let seeds = seeds
                    .filter(|seeds| !seeds.is_empty() && seeds.len() as u64 <= SEEDS_MAX)
                    .ok_or_else(wrong)?;
                let mut sorted = seeds.clone();
                sorted.sort_unstable();
                sorted.dedup();
                Some(seeds.clone()).filter(|_| sorted.len() == seeds.len()).ok_or_else(wrong).map(Some)?
            }
            _ => None,
        };
        let first = match (&listed, seeds) {
            (Some(listed), _) => listed.len() as u64,
            (None, None) => 1,
            (None, Some(seeds)) => count(seeds).ok_or_else(wrong)?,
        };
        let (most, until) = match (most, until) {
            (None, None) => (first, None),
            (Some(most), Some(until)) => {
                let most = count(most).filter(|&most| most >= first);
                let most = most.ok_or_else(|| {
                    SweepError::key(
                        "seeds_max",
                        format!("allowed is a number from seeds ({first}) to {SEEDS_MAX}"),
                    )
                })?;
                (most, Some(share(until)?))
            }
            (Some(_), None) => {
                return Err(SweepError::key(
                    "seeds_max",
                    "counts with sweep.until: say how narrow the interval is to be",
                ));
            }
            (None, Some(_)) => {
                return Err(SweepError::key(
                    "until",
                    "counts with sweep.seeds_max: say how many seeds are tried at most",
                ));
            }
        };
        if until.is_some() && first < 2 {
            return Err(SweepError::key("until", "one seed has no interval: sweep.seeds must be 2 or more"));
        }
        if listed.is_some() && until.is_some() {
            return Err(SweepError::key("until", "counts with a number of seeds, not with a list"));
        }
        let next = from.checked_add(most - 1).filter(|&last| i64::try_from(last).is_ok());
        let next = next.ok_or_else(|| {
            SweepError::key("seeds", format!("they go beyond the last seed from {from} on"))
        })?;
        Ok(Self { all: listed.unwrap_or_else(|| (from..=next).collect()), first: first as usize, until })
    }
}

/// "1%" or 0.01.
fn share(value: &Value) -> Result<f64, SweepError> {
    let number = match value {
        Value::Float(share) => Some(*share),
        Value::String(text) => text
            .trim()
            .strip_suffix('%')
            .and_then(|text| text.trim().parse::<f64>().ok())
            .map(|percent| percent / 100.0),
        _ => None,
    };
    number.filter(|share| *share > 0.0 && *share < 1.0).ok_or_else(|| {
        SweepError::key("until", "allowed is a share of the mean between 0 and 1, or as a percentage: \"1%\"")
    })
}
