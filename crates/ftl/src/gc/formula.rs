//! Victim policies written as a formula.

use std::str::FromStr;
use std::sync::Arc;

use exmex::{BinOp, Express as _, FlatEx, MakeOperators, Operator};
use strobe_types::{BlockId, Prng};

use super::linear::BlockHistory;
use super::{BlockView, VictimPolicy};

/// A variable that formulas may use.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
    read: fn(&BlockHistory, &Candidate) -> f64,
}

/// What is known of a candidate when it is scored.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    valid: u32,
    units: u32,
    tick: u64,
}

impl Candidate {
    /// Ticks since `since`, plus one.
    fn age(&self, since: u64) -> f64 {
        (self.tick + 1 - since) as f64
    }
}

/// Every variable. Ages are in ticks (host units written or trimmed) plus one, so never 0.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "u",
        meaning: "valid share of the block, 0 to 1",
        read: |_, c| f64::from(c.valid) / f64::from(c.units),
    },
    Variable { name: "valid", meaning: "valid mapping units", read: |_, c| f64::from(c.valid) },
    Variable { name: "invalid", meaning: "invalid mapping units", read: |_, c| f64::from(c.units - c.valid) },
    Variable { name: "units", meaning: "mapping units in a block", read: |_, c| f64::from(c.units) },
    Variable { name: "age", meaning: "age since the block was opened", read: |b, c| c.age(b.opened) },
    Variable {
        name: "age_closed",
        meaning: "age since its last page was written",
        read: |b, c| c.age(b.closed),
    },
    Variable {
        name: "age_last_invalid",
        meaning: "age since one of its units last became invalid; since it closed, if none has",
        read: |b, c| c.age(b.last_invalidation),
    },
    Variable {
        name: "age_invalid_sum",
        meaning: "sum over its invalid units of the age since each became invalid",
        read: |b, c| (c.tick + 1) as f64 * b.invalidations as f64 - b.invalidation_ticks as f64,
    },
    Variable { name: "erase_count", meaning: "erases of the block", read: |b, _| f64::from(b.erase_count) },
];

/// Why a text is no formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    /// It cannot be parsed.
    #[error("\"{text}\" is not a formula: {reason}")]
    Syntax {
        /// The formula.
        text: String,
        /// What the parser said.
        reason: String,
    },
    /// It uses something that is not there.
    #[error("\"{text}\" uses {name}, which is no variable; there are {}", variable_names())]
    Unknown {
        /// The formula.
        text: String,
        /// The name.
        name: String,
    },
    /// It scores every block alike.
    #[error("\"{text}\" uses no variable and so cannot tell blocks apart; there are {}", variable_names())]
    Constant {
        /// The formula.
        text: String,
    },
}

fn variable_names() -> String {
    VARIABLES.iter().map(|v| v.name).collect::<Vec<_>>().join(", ")
}

/// Scores are computed for this many candidates at a time, which the compiler turns into vector
/// instructions.
const LANES: usize = 256;

/// A number, or one per candidate of a chunk.
#[derive(Clone, Debug)]
enum Column {
    Constant(f64),
    Values(Arc<[f64; LANES]>),
}

impl Default for Column {
    fn default() -> Self {
        Self::Constant(0.0)
    }
}

impl FromStr for Column {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::Constant)
    }
}

impl Column {
    #[inline(always)]
    fn map(self, f: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Constant(x) => Self::Constant(f(x)),
            Self::Values(mut values) => {
                Arc::make_mut(&mut values).iter_mut().for_each(|x| *x = f(*x));
                Self::Values(values)
            }
        }
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Constant(a), other) => other.map(|b| f(a, b)),
            (this, Self::Constant(b)) => this.map(|a| f(a, b)),
            (Self::Values(mut a), Self::Values(b)) => {
                Arc::make_mut(&mut a).iter_mut().zip(b.iter()).for_each(|(x, &y)| *x = f(*x, y));
                Self::Values(a)
            }
        }
    }

    /// Power. Small whole exponents are multiplied out: faster, and the same on every machine.
    fn power(self, exponent: Self) -> Self {
        match exponent {
            Self::Constant(n) if n == libm::trunc(n) && (0.0..=16.0).contains(&n) => {
                let n = n as u32;
                self.map(|x| (0..n).fold(1.0, |product, _| product * x))
            }
            exponent => self.zip(exponent, libm::pow),
        }
    }
}

/// The operators and functions of formulas.
#[derive(Clone, Debug)]
struct Operators;

impl MakeOperators<Column> for Operators {
    fn make<'a>() -> Vec<Operator<'a, Column>> {
        fn binary(apply: fn(Column, Column) -> Column, prio: i64) -> BinOp<Column> {
            BinOp { apply, prio, is_commutative: false }
        }
        vec![
            Operator::make_bin_unary("+", binary(|a, b| a.zip(b, |x, y| x + y), 0), |a| a),
            Operator::make_bin_unary("-", binary(|a, b| a.zip(b, |x, y| x - y), 0), |a| a.map(|x| -x)),
            Operator::make_bin("*", binary(|a, b| a.zip(b, |x, y| x * y), 1)),
            Operator::make_bin("/", binary(|a, b| a.zip(b, |x, y| x / y), 1)),
            Operator::make_bin("^", binary(Column::power, 2)),
            Operator::make_bin("min", binary(|a, b| a.zip(b, f64::min), 3)),
            Operator::make_bin("max", binary(|a, b| a.zip(b, f64::max), 3)),
            Operator::make_unary("sqrt", |a| a.map(f64::sqrt)),
            Operator::make_unary("abs", |a| a.map(f64::abs)),
            Operator::make_unary("exp", |a| a.map(libm::exp)),
            Operator::make_unary("log", |a| a.map(libm::log)),
        ]
    }
}

/// Picks the candidate with the largest score; of equals, the lowest block.
///
/// Scores are ordered as numbers with +∞ (a division by zero) above all and "not a number" (0/0)
/// below all. A block without invalid units is never chosen, whatever its score. Every choice
/// scores every candidate: cost grows with the number of blocks, at a few ns each.
#[derive(Clone, Debug)]
pub struct Formula {
    expression: FlatEx<Column, Operators>,
    /// The variables in the order in which the expression takes them.
    variables: Vec<Variable>,
    history: Vec<BlockHistory>,
    /// The candidates, in no particular order, and where each block stands among them.
    candidates: Vec<BlockId>,
    position: Vec<u32>,
}

impl Formula {
    /// Longest formula, in bytes.
    pub const LENGTH_MAX: usize = 1000;
    /// Deepest nesting of parentheses.
    const NESTING_MAX: usize = 50;

    /// An index for `blocks` blocks that scores by `text`.
    pub fn new(blocks: u32, text: &str) -> Result<Self, FormulaError> {
        let (expression, variables) = Self::parse(text)?;
        Ok(Self {
            expression,
            variables,
            history: vec![BlockHistory::default(); blocks as usize],
            candidates: Vec::new(),
            position: vec![0; blocks as usize],
        })
    }

    /// Whether `text` is a formula, without building anything.
    pub fn check(text: &str) -> Result<(), FormulaError> {
        Self::parse(text).map(|_| ())
    }

    fn parse(text: &str) -> Result<(FlatEx<Column, Operators>, Vec<Variable>), FormulaError> {
        let syntax = |reason: String| FormulaError::Syntax { text: text.chars().take(80).collect(), reason };
        if text.len() > Self::LENGTH_MAX {
            return Err(syntax(format!("longer than {} characters", Self::LENGTH_MAX)));
        }
        // The parser recurses; it must not see what could exhaust the stack.
        let opened = text.bytes().filter(|&byte| byte == b'(').count();
        if opened > Self::NESTING_MAX {
            return Err(syntax(format!("more than {} parentheses", Self::NESTING_MAX)));
        }
        let expression =
            FlatEx::<Column, Operators>::parse(text).map_err(|error| syntax(error.to_string()))?;
        let mut variables = Vec::new();
        for name in expression.var_names() {
            let known = VARIABLES.iter().find(|v| v.name == name.as_str());
            let known =
                known.ok_or_else(|| FormulaError::Unknown { text: text.to_owned(), name: name.clone() })?;
            variables.push(*known);
        }
        if variables.is_empty() {
            return Err(FormulaError::Constant { text: text.to_owned() });
        }
        Ok((expression, variables))
    }

    /// Scores of up to [`LANES`] candidates; what lies beyond them is meaningless.
    fn scores(&self, blocks: &[BlockId], view: &BlockView<'_>) -> Column {
        let columns: Vec<Column> = self
            .variables
            .iter()
            .map(|variable| {
                let mut values = [0.0; LANES];
                for (value, &block) in values.iter_mut().zip(blocks) {
                    let candidate = Candidate {
                        valid: view.valid(block),
                        units: view.units_per_block(),
                        tick: view.tick(),
                    };
                    *value = (variable.read)(&self.history[block.index()], &candidate);
                }
                Column::Values(Arc::new(values))
            })
            .collect();
        self.expression.eval(&columns).expect("the expression was checked with these variables")
    }
}

impl VictimPolicy for Formula {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        self.history[block.index()] = BlockHistory::opened(erase_count, tick);
    }

    fn closed(&mut self, block: BlockId, _valid: u32, tick: u64) {
        self.history[block.index()].close(tick);
        self.position[block.index()] = self.candidates.len() as u32;
        self.candidates.push(block);
    }

    #[inline]
    fn invalidated(&mut self, block: BlockId, _valid: u32, tick: u64) {
        self.history[block.index()].invalidate(tick);
    }

    fn taken(&mut self, block: BlockId) {
        let at = self.position[block.index()] as usize;
        let removed = self.candidates.swap_remove(at);
        assert_eq!(removed, block, "block is a candidate");
        if let Some(moved) = self.candidates.get(at) {
            self.position[moved.index()] = at as u32;
        }
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let mut best: Option<(f64, BlockId)> = None;
        for chunk in self.candidates.chunks(LANES) {
            let Column::Values(scores) = self.scores(chunk, view) else {
                unreachable!("a formula with variables gives a score for each block");
            };
            for (&score, &block) in scores.iter().zip(chunk) {
                let score = if score.is_nan() { f64::NEG_INFINITY } else { score };
                let better = best.is_none_or(|(top, id)| score > top || (score == top && block < id));
                if better && view.valid(block) < view.units_per_block() {
                    best = Some((score, block));
                }
            }
        }
        best.map(|(_, block)| block)
    }

    fn candidates(&self) -> u32 {
        self.candidates.len() as u32
    }

    fn bytes_per_block() -> u64 {
        (std::mem::size_of::<BlockHistory>() + 8) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_formula_is_refused_with_the_reason() {
        let refusal = |text: &str| Formula::check(text).expect_err(text).to_string();
        assert!(refusal("age * (1-u").contains("not a formula"));
        assert!(refusal("agee / u").contains("agee"));
        assert!(refusal("1 + 2").contains("uses no variable"));
        assert!(refusal("").contains("not a formula") || refusal("").contains("no variable"));
        assert!(refusal(&"(".repeat(400)).contains("parentheses"));
        assert!(refusal(&"u+".repeat(600)).contains("longer"));
        for good in
            ["age * (1-u) / (1+u)^2", "-valid", "max(age, erase_count) / sqrt(1 + u)", "u^0.5", "log(age)"]
        {
            Formula::check(good).unwrap_or_else(|e| panic!("{good}: {e}"));
        }
    }

    fn scored(text: &str, valid: &[u32]) -> Option<u32> {
        let mut policy = Formula::new(valid.len() as u32, text).expect("formula");
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
