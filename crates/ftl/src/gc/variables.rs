use strobe_types::State;

use crate::formula::Column;

/// A variable of victim formulas.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Name.
    pub name: &'static str,
    /// Meaning, in words.
    pub meaning: &'static str,
    pub(super) column: fn(&Histories, &Chunk<'_>, &mut Column),
}

/// Block histories, a column for each variable. Ticks in floating point are exact up to 2⁵³.
#[derive(Clone, Debug, Default, State)]
pub(super) struct Histories {
    #[state(table)]
    pub(super) opened: Vec<f64>,
    #[state(table)]
    pub(super) closed: Vec<f64>,
    #[state(table)]
    pub(super) first_invalidation: Vec<f64>,
    #[state(table)]
    pub(super) last_invalidation: Vec<f64>,
    /// −∞ for a block without valid units; empty if unused.
    #[state(table)]
    pub(super) newest_valid: Vec<f64>,
    #[state(table)]
    pub(super) invalidations: Vec<f64>,
    #[state(table)]
    pub(super) invalidation_ticks: Vec<f64>,
    #[state(table)]
    pub(super) erase_count: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<'a> {
    pub(super) first: usize,
    pub(super) valid: &'a [u32],
    pub(super) streams: &'a [u8],
    pub(super) units: f64,
    /// Current tick plus one.
    pub(super) tick: f64,
}

impl Chunk<'_> {
    fn ages(&self, since: &[f64], out: &mut Column) {
        let since = &since[self.first..self.first + self.valid.len()];
        out.iter_mut().zip(since).for_each(|(age, &since)| *age = self.tick - since);
    }

    fn counts(&self, out: &mut Column, f: impl Fn(f64) -> f64) {
        out.iter_mut().zip(self.valid).for_each(|(x, &valid)| *x = f(f64::from(valid as i32)));
    }
}

pub(super) const NEWEST_VALID: &str = "age_newest_valid";

const fn variable(
    name: &'static str,
    meaning: &'static str,
    column: fn(&Histories, &Chunk<'_>, &mut Column),
) -> Variable {
    Variable { name, meaning, column }
}

/// All variables. Ages are in ticks plus one, never 0.
pub const VARIABLES: &[Variable] = &[
    variable("u", "valid share of the block, 0 to 1", |_, c, out| c.counts(out, |valid| valid / c.units)),
    variable("valid", "valid mapping units", |_, c, out| c.counts(out, |valid| valid)),
    variable("invalid", "invalid mapping units", |_, c, out| c.counts(out, |valid| c.units - valid)),
    variable("units", "mapping units in a block", |_, c, out| out.fill(c.units)),
    variable("age", "age since the block was opened", |h, c, out| c.ages(&h.opened, out)),
    variable("age_closed", "age since its last page was written", |h, c, out| c.ages(&h.closed, out)),
    variable(
        "age_last_invalid",
        "age since the last invalidation of a unit; since the block closed, if none",
        |h, c, out| c.ages(&h.last_invalidation, out),
    ),
    variable(
        "age_first_invalid",
        "age since the first invalidation of a unit; since the block closed, if none",
        |h, c, out| c.ages(&h.first_invalidation, out),
    ),
    variable(
        NEWEST_VALID,
        "age since its newest valid unit was written; infinite if none is valid",
        |h, c, out| c.ages(&h.newest_valid, out),
    ),
    variable(
        "age_invalid_sum",
        "sum over its invalid units of the age since each became invalid",
        |h, c, out| {
            let (counts, ticks) = (&h.invalidations[c.first..], &h.invalidation_ticks[c.first..]);
            for (x, (count, ticks)) in out.iter_mut().zip(counts.iter().zip(ticks)) {
                *x = c.tick * count - ticks;
            }
        },
    ),
    variable("stream", "stream that filled the block; -1 if unknown", |_, c, out| {
        out.fill(-1.0);
        out.iter_mut().zip(c.streams).for_each(|(x, &stream)| *x = f64::from(stream) - 1.0);
    }),
    variable("erase_count", "erases of the block", |h, c, out| {
        out.iter_mut().zip(&h.erase_count[c.first..]).for_each(|(x, &count)| *x = count)
    }),
];
