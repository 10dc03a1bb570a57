//! Victim policies written as a formula.

use strobe_types::{BlockId, Ppa, Prng};

use super::expression::{Column, Expression, LANES, Stack};
use super::formula_error::FormulaError;
use super::write_ticks::WriteTicks;
use super::{BlockView, VictimPolicy};

/// A variable that formulas may use.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
    column: fn(&Histories, &Chunk<'_>, &mut Column),
}

/// What formulas may use of the blocks' past, a table per fact so that whole columns can be
/// computed at once. Ticks are kept as floating-point numbers, which hold them exactly up to 2⁵³.
#[derive(Clone, Debug, Default)]
struct Histories {
    opened: Vec<f64>,
    closed: Vec<f64>,
    first_invalidation: Vec<f64>,
    last_invalidation: Vec<f64>,
    /// −∞ for a block without valid units. Empty if the formula does not ask.
    newest_valid: Vec<f64>,
    invalidations: Vec<f64>,
    invalidation_ticks: Vec<f64>,
    erase_count: Vec<f64>,
}

/// The blocks that a column describes.
#[derive(Clone, Copy, Debug)]
struct Chunk<'a> {
    first: usize,
    valid: &'a [u32],
    units: f64,
    /// Now plus one.
    tick: f64,
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

/// The variable that needs a tick per unit.
const NEWEST_VALID: &str = "age_newest_valid";

/// Every variable. Ages are in ticks (host units written or trimmed) plus one, so never 0.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "u",
        meaning: "valid share of the block, 0 to 1",
        column: |_, c, out| c.counts(out, |valid| valid / c.units),
    },
    Variable {
        name: "valid",
        meaning: "valid mapping units",
        column: |_, c, out| c.counts(out, |valid| valid),
    },
    Variable {
        name: "invalid",
        meaning: "invalid mapping units",
        column: |_, c, out| c.counts(out, |valid| c.units - valid),
    },
    Variable { name: "units", meaning: "mapping units in a block", column: |_, c, out| out.fill(c.units) },
    Variable {
        name: "age",
        meaning: "age since the block was opened",
        column: |h, c, out| c.ages(&h.opened, out),
    },
    Variable {
        name: "age_closed",
        meaning: "age since its last page was written",
        column: |h, c, out| c.ages(&h.closed, out),
    },
    Variable {
        name: "age_last_invalid",
        meaning: "age since one of its units last became invalid; since it closed, if none has",
        column: |h, c, out| c.ages(&h.last_invalidation, out),
    },
    Variable {
        name: "age_first_invalid",
        meaning: "age since the first of its invalid units became so; since it closed, if none is",
        column: |h, c, out| c.ages(&h.first_invalidation, out),
    },
    Variable {
        name: NEWEST_VALID,
        meaning: "age since its newest valid unit was written; infinite if none is valid",
        column: |h, c, out| c.ages(&h.newest_valid, out),
    },
    Variable {
        name: "age_invalid_sum",
        meaning: "sum over its invalid units of the age since each became invalid",
        column: |h, c, out| {
            let (counts, ticks) = (&h.invalidations[c.first..], &h.invalidation_ticks[c.first..]);
            for (x, (count, ticks)) in out.iter_mut().zip(counts.iter().zip(ticks)) {
                *x = c.tick * count - ticks;
            }
        },
    },
    Variable {
        name: "erase_count",
        meaning: "erases of the block",
        column: |h, c, out| out.iter_mut().zip(&h.erase_count[c.first..]).for_each(|(x, &count)| *x = count),
    },
];

/// Picks the candidate with the largest score; of equals, the lowest block.
///
/// Scores are ordered as numbers with +∞ (a division by zero) above all and "not a number" (0/0)
/// below all. A block without invalid units is never chosen, whatever its score. Every choice
/// scores every candidate: cost grows with the number of blocks, at a few ns each. Memory per unit,
/// 8 bytes, is needed by a formula with `age_newest_valid` alone.
#[derive(Clone, Debug)]
pub struct Formula {
    expression: Expression,
    /// The variables in the order in which the expression takes them.
    variables: Vec<Variable>,
    histories: Histories,
    writes: Option<WriteTicks>,
    candidate: Vec<bool>,
    candidates: u32,
    stack: Stack,
}

impl Formula {
    /// Longest formula, in bytes.
    pub const LENGTH_MAX: usize = 1000;

    /// An index for `blocks` blocks that scores by `text`.
    pub fn new(blocks: u32, units_per_block: u32, text: &str) -> Result<Self, FormulaError> {
        let (expression, variables) = Self::parse(text)?;
        let table = || vec![0.0; blocks as usize];
        let writes = variables.iter().any(|variable| variable.name == NEWEST_VALID);
        let writes = writes.then(|| WriteTicks::new(blocks, units_per_block));
        Ok(Self {
            stack: expression.stack(),
            expression,
            variables,
            histories: Histories {
                opened: table(),
                closed: table(),
                first_invalidation: table(),
                last_invalidation: table(),
                newest_valid: if writes.is_some() { table() } else { Vec::new() },
                invalidations: table(),
                invalidation_ticks: table(),
                erase_count: table(),
            },
            writes,
            candidate: vec![false; blocks as usize],
            candidates: 0,
        })
    }

    /// Whether `text` is a formula, without building anything.
    pub fn check(text: &str) -> Result<(), FormulaError> {
        Self::parse(text).map(|_| ())
    }

    fn parse(text: &str) -> Result<(Expression, Vec<Variable>), FormulaError> {
        if text.len() > Self::LENGTH_MAX {
            return Err(FormulaError::TooLong);
        }
        if text.trim().is_empty() {
            return Err(FormulaError::Empty);
        }
        let names: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
        let expression = Expression::parse(text, &names).map_err(|error| FormulaError::of(text, error))?;
        let named = |name: &String| VARIABLES.iter().find(|variable| variable.name == name.as_str());
        let variables: Vec<Variable> = expression.variables().iter().filter_map(named).copied().collect();
        if variables.is_empty() {
            return Err(FormulaError::Constant);
        }
        Ok((expression, variables))
    }
}

impl VictimPolicy for Formula {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        let (h, at) = (&mut self.histories, block.index());
        h.opened[at] = tick as f64;
        h.invalidations[at] = 0.0;
        h.invalidation_ticks[at] = 0.0;
        h.erase_count[at] = f64::from(erase_count);
        if let Some(writes) = &mut self.writes {
            writes.opened(block);
        }
    }

    fn written(&mut self, unit: Ppa, tick: u64) {
        if let Some(writes) = &mut self.writes {
            let block = writes.written(unit, tick);
            self.histories.newest_valid[block.index()] = tick as f64;
        }
    }

    fn closed(&mut self, block: BlockId, _valid: u32, tick: u64) {
        let (h, at) = (&mut self.histories, block.index());
        h.closed[at] = tick as f64;
        if h.invalidations[at] == 0.0 {
            h.first_invalidation[at] = tick as f64;
            h.last_invalidation[at] = tick as f64;
        }
        self.candidate[at] = true;
        self.candidates += 1;
    }

    #[inline]
    fn invalidated(&mut self, unit: Ppa, block: BlockId, _valid: u32, tick: u64) {
        let (h, at) = (&mut self.histories, block.index());
        if h.invalidations[at] == 0.0 {
            h.first_invalidation[at] = tick as f64;
        }
        h.last_invalidation[at] = tick as f64;
        h.invalidations[at] += 1.0;
        h.invalidation_ticks[at] += tick as f64;
        if let Some(writes) = &mut self.writes {
            writes.invalidated(unit, block);
            h.newest_valid[at] = writes.newest(block).map_or(f64::NEG_INFINITY, |tick| tick as f64);
        }
    }

    fn taken(&mut self, block: BlockId) {
        self.candidate[block.index()] = false;
        self.candidates -= 1;
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let mut best: Option<(f64, usize)> = None;
        let units = view.units_per_block();
        for (at, valid) in view.valid.chunks(LANES).enumerate() {
            let first = at * LANES;
            let chunk = Chunk { first, valid, units: f64::from(units), tick: (view.tick() + 1) as f64 };
            let (variables, histories) = (&self.variables, &self.histories);
            let scores = self.expression.evaluate(&mut self.stack, |variable, out| {
                (variables[variable].column)(histories, &chunk, out);
            });
            let candidates = &self.candidate[first..first + valid.len()];
            for (lane, ((&score, &valid), &candidate)) in scores.iter().zip(valid).zip(candidates).enumerate()
            {
                // Blocks come in order, so that of equals the lowest stays.
                let score = if score.is_nan() { f64::NEG_INFINITY } else { score };
                if candidate && valid < units && best.is_none_or(|(top, _)| score > top) {
                    best = Some((score, first + lane));
                }
            }
        }
        best.map(|(_, block)| BlockId::new(block as u32))
    }

    fn candidates(&self) -> u32 {
        self.candidates
    }

    fn bytes_per_block() -> u64 {
        7 * 8 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_formula_is_refused_with_the_reason() {
        let refusal = |text: &str| Formula::check(text).expect_err(text).to_string();
        assert!(refusal("age * (1-u").contains("')' is missing at the end"));
        assert!(refusal("agee / u").contains("unknown variable agee"));
        assert!(refusal("1 + 2").contains("uses no variable"));
        assert!(refusal("").contains("is empty"));
        assert!(refusal(&"(".repeat(400)).contains("deeper"));
        assert!(refusal(&"u+".repeat(600)).contains("longer"));
        for good in
            ["age * (1-u) / (1+u)^2", "-valid", "max(age, erase_count) / sqrt(1 + u)", "u^0.5", "log(age)"]
        {
            Formula::check(good).unwrap_or_else(|e| panic!("{good}: {e}"));
        }
    }

    fn scored(text: &str, valid: &[u32]) -> Option<u32> {
        let mut policy = Formula::new(valid.len() as u32, 10, text).expect("formula");
        for (id, &valid) in valid.iter().enumerate() {
            let block = BlockId::new(id as u32);
            policy.opened(block, 0, 1 + id as u64);
            policy.closed(block, valid, 50);
        }
        policy.choose(&BlockView::new(valid, 10, 100), &mut Prng::new(1)).map(BlockId::get)
    }

    #[test]
    fn operators_have_their_usual_precedence() {
        // Scores 5·2 − 9, 4·2 − 9, …: the largest is that of the first.
        assert_eq!(scored("1 - valid * 2 + 3 ^ 2 / 9", &[5, 4, 3]), Some(2));
        assert_eq!(scored("valid - 1 - 1", &[5, 4, 3]), Some(0));
        assert_eq!(scored("2 ^ valid", &[5, 4, 3]), Some(0));
    }

    #[test]
    fn infinite_scores_come_first_and_undefined_ones_last() {
        assert_eq!(scored("(1-u) / u", &[5, 0, 3]), Some(1));
        // 0/0 for the block with 5 valid units, otherwise negative.
        assert_eq!(scored("(valid-5) / (valid-5) - 2", &[5, 4, 3]), Some(1));
        assert_eq!(scored("(valid-5) / (valid-5)", &[5, 5, 5]), Some(0), "all undefined: the lowest block");
    }

    #[test]
    fn full_blocks_are_never_chosen() {
        assert_eq!(scored("u", &[10, 9, 10]), Some(1));
        assert_eq!(scored("u", &[10, 10]), None);
    }

    #[test]
    fn every_chunk_counts() {
        let mut valid = vec![5; 3 * LANES + 7];
        valid[3 * LANES + 5] = 1;
        assert_eq!(scored("-u", &valid), Some(3 * LANES as u32 + 5));
    }
}
