use toml::Value;

use crate::SweepError;

const SEEDS_MAX: u64 = 10_000;
/// Fewest seeds of the first stage with `until`, and the default of `seeds` then. Only the first stage
/// determines the interval. With 8 seeds it is 21 % wider than with infinitely many, with 2 six times as
/// wide.
const PILOT_MIN: u64 = 8;

/// Seeds of each configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Seeds {
    /// All seeds that may run, in this order.
    pub all: Vec<u64>,
    /// Number of seeds that always run. With `until`, their spread decides how many of the rest run
    /// ([`seeds_needed`](crate::seeds_needed)).
    pub first: usize,
    /// Target half-width of the first measure's interval, as a share of its mean. `None`: all seeds run.
    pub until: Option<f64>,
}

impl Seeds {
    /// Reads `seeds`, `seeds_max` and `until`; `from` is the seed of the experiment.
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
                // A seed given twice would count one run as two independent ones.
                let mut sorted = seeds.clone();
                sorted.sort_unstable();
                sorted.dedup();
                Some(seeds.clone()).filter(|_| sorted.len() == seeds.len()).ok_or_else(wrong).map(Some)?
            }
            _ => None,
        };
        let first = match (&listed, seeds) {
            (Some(listed), _) => listed.len() as u64,
            (None, None) if until.is_some() => PILOT_MIN,
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
                    "needs sweep.until, the width that the interval is to reach",
                ));
            }
            (None, Some(_)) => {
                return Err(SweepError::key("until", "needs sweep.seeds_max, the maximum number of seeds"));
            }
        };
        if until.is_some() && first < PILOT_MIN {
            return Err(SweepError::key(
                "until",
                format!(
                    "sweep.seeds is {first}, too few to estimate how many seeds are needed; allowed is \
                     {PILOT_MIN} or more (leave sweep.seeds out for {PILOT_MIN})"
                ),
            ));
        }
        if listed.is_some() && until.is_some() {
            return Err(SweepError::key("until", "needs a number of seeds, not a list"));
        }
        // TOML integers are signed: the last seed must fit into 63 bits.
        let next = from.checked_add(most - 1).filter(|&last| i64::try_from(last).is_ok());
        let next = next.ok_or_else(|| {
            SweepError::key("seeds", format!("too many from seed {from} on: the largest seed is 2^63 - 1"))
        })?;
        Ok(Self { all: listed.unwrap_or_else(|| (from..=next).collect()), first: first as usize, until })
    }
}

/// Reads a share: "1%" or 0.01.
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
