use strobe_types::{BlockId, Ppa, Prng, State};

use super::variables::{Chunk, Histories, NEWEST_VALID, VARIABLES, Variable};
use super::write_ticks::WriteTicks;
use super::{BlockView, VictimPolicy};
use crate::formula::{Expression, FormulaError, LANES, Stack, parse};

/// Picks the candidate with the largest score; of equals, the lowest block.
///
/// +∞ (a division by zero) ranks above all numbers, "not a number" (0/0) below all. A block without invalid
/// units is never chosen. Each choice scores every block, at a few ns each. Only `age_newest_valid` needs
/// memory per unit, 8 bytes.
#[derive(Clone, Debug, State)]
pub struct Formula {
    #[state(skip)]
    expression: Expression,
    #[state(skip)]
    variables: Vec<Variable>,
    #[state(skip)]
    stack: Stack,
    candidates: u32,
    histories: Histories,
    #[state(table)]
    candidate: Vec<bool>,
    #[state(part)]
    writes: Option<WriteTicks>,
}

impl Formula {
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

    /// An index that observes all [`VARIABLES`], for scores computed elsewhere.
    pub fn observer(blocks: u32, units_per_block: u32) -> Self {
        let names: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
        Self::new(blocks, units_per_block, &names.join(" + ")).expect("a sum of variables is a formula")
    }

    /// Blocks that may be chosen, in ascending order.
    pub fn choices(&self, view: &BlockView<'_>) -> Vec<BlockId> {
        let of = (0..).zip(view.valid.iter().zip(&self.candidate));
        let may = of.filter(|(_, (valid, candidate))| **candidate && **valid <= view.most_valid);
        may.map(|(block, _)| BlockId::new(block)).collect()
    }

    /// Values of `variable`, which the formula must use, for all blocks.
    pub fn values(&self, variable: &Variable, view: &BlockView<'_>) -> Vec<f64> {
        let mut values = Vec::with_capacity(view.valid.len());
        let mut column = [0.0; LANES];
        for chunk in chunks(view) {
            (variable.column)(&self.histories, &chunk, &mut column);
            values.extend_from_slice(&column[..chunk.valid.len()]);
        }
        values
    }

    /// Checks `text` without building an index.
    pub fn check(text: &str) -> Result<(), FormulaError> {
        Self::parse(text).map(|_| ())
    }

    fn parse(text: &str) -> Result<(Expression, Vec<Variable>), FormulaError> {
        let names: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
        let expression = parse(text, &names, "blocks")?;
        let named = |name: &String| VARIABLES.iter().find(|variable| variable.name == name.as_str());
        let variables: Vec<Variable> = expression.variables().iter().filter_map(named).copied().collect();
        Ok((expression, variables))
    }
}

fn chunks<'a>(view: &BlockView<'a>) -> impl Iterator<Item = Chunk<'a>> {
    let (streams, units, tick) = (view.streams, f64::from(view.units_per_block()), (view.tick() + 1) as f64);
    view.valid.chunks(LANES).enumerate().map(move |(at, valid)| {
        let first = at * LANES;
        let streams = streams.get(first..first + valid.len()).unwrap_or(&[]);
        Chunk { first, valid, streams, units, tick }
    })
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
            // Without valid units the age is infinite.
            h.newest_valid[at] = writes.newest(block).map_or(f64::NEG_INFINITY, |tick| tick as f64);
        }
    }

    fn taken(&mut self, block: BlockId) {
        self.candidate[block.index()] = false;
        self.candidates -= 1;
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let mut best: Option<(f64, usize)> = None;
        for chunk in chunks(view) {
            let Chunk { first, valid, .. } = chunk;
            let (variables, histories) = (&self.variables, &self.histories);
            let scores = self.expression.evaluate(&mut self.stack, |variable, out| {
                (variables[variable].column)(histories, &chunk, out);
            });
            let candidates = &self.candidate[first..first + valid.len()];
            for (lane, ((&score, &valid), &candidate)) in scores.iter().zip(valid).zip(candidates).enumerate()
            {
                // Blocks come in ascending order, so the lowest of equals stays the best.
                let score = if score.is_nan() { f64::NEG_INFINITY } else { score };
                if candidate && valid <= view.most_valid && best.is_none_or(|(top, _)| score > top) {
                    best = Some((score, first + lane));
                }
            }
        }
        best.map(|(_, block)| BlockId::new(block as u32))
    }

    fn score(&self, block: BlockId, view: &BlockView<'_>) -> Option<f64> {
        let at = block.index();
        let streams = view.streams.get(at..=at).unwrap_or(&[]);
        let units = f64::from(view.units_per_block());
        let chunk =
            Chunk { first: at, valid: &view.valid[at..=at], streams, units, tick: (view.tick() + 1) as f64 };
        let mut stack = self.expression.stack();
        let scores = self.expression.evaluate(&mut stack, |variable, out| {
            (self.variables[variable].column)(&self.histories, &chunk, out);
        });
        Some(scores[0])
    }

    super::by_state!();

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
        // Scores 5·2 − 9, 4·2 − 9, …: the largest is the first.
        assert_eq!(scored("1 - valid * 2 + 3 ^ 2 / 9", &[5, 4, 3]), Some(2));
        assert_eq!(scored("valid - 1 - 1", &[5, 4, 3]), Some(0));
        assert_eq!(scored("2 ^ valid", &[5, 4, 3]), Some(0));
    }

    #[test]
    fn infinite_scores_come_first_and_undefined_ones_last() {
        assert_eq!(scored("(1-u) / u", &[5, 0, 3]), Some(1));
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
