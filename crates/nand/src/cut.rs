//! Power cuts: the flash as it is when power fails during an operation.
//!
//! A cut does not stop the chip. It takes a copy of the array with the operation at hand half done, and
//! the run goes on: so one run yields the flash after a cut at each of its operations.

use crate::Nand;

/// Where to take [`Snapshot`]s. Operations are numbered as
/// [`OpCounts::changes`](crate::OpCounts::changes) counts them: the first one is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutPlan {
    /// Nowhere.
    #[default]
    Never,
    /// During this operation.
    At(u64),
    /// Twice at every operation: just before it, and during it.
    Everywhere,
}

/// Flash whose power can be cut.
///
/// **The caller promises** nothing beyond [`Nand`]. **The implementer promises** that a planned cut changes
/// nothing about the flash itself, and that a snapshot is what a cut at that operation would have left.
pub trait PowerCuts: Nand + Sized {
    /// Plans where snapshots are taken. Replaces an earlier plan and drops its snapshots.
    fn plan_cuts(&mut self, plan: CutPlan);

    /// The snapshots taken since the last call, in order.
    fn take_snapshots(&mut self) -> Vec<Snapshot<Self>>;

    /// What a cut at this moment leaves. Where operations take time it knows what had not been complete only while cuts
    /// are planned, whatever the plan: without one what has been issued counts as done.
    fn cut_now(&mut self) -> Snapshot<Self>;
}

/// What a power cut has met, where operations take time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Programs that had begun.
    pub programs: u32,
    /// Erases that had begun.
    pub erases: u32,
    /// Programs among them that were suspended for a read.
    pub suspended_programs: u32,
    /// Erases among them that were.
    pub suspended_erases: u32,
}

/// The flash after a power cut.
#[derive(Clone, Debug)]
pub struct Snapshot<N> {
    /// The operation that was cut short, or about to begin; of a cut at any moment, the last one issued.
    pub operation: u64,
    /// Whether it had begun: then a page holds nothing legible, or a block is half erased.
    pub begun: bool,
    /// What was under way.
    pub met: Met,
    /// What is left. Its own plan is [`CutPlan::Never`].
    pub flash: N,
}

/// The plan of a chip and what it has given so far.
#[derive(Clone, Debug)]
pub(crate) struct Cuts<N> {
    plan: CutPlan,
    pub(crate) taken: Vec<Snapshot<N>>,
}

impl<N> Default for Cuts<N> {
    fn default() -> Self {
        Self { plan: CutPlan::Never, taken: Vec::new() }
    }
}

impl<N> Cuts<N> {
    pub(crate) fn new(plan: CutPlan) -> Self {
        Self { plan, taken: Vec::new() }
    }

    pub(crate) fn is_planned(&self) -> bool {
        self.plan != CutPlan::Never
    }

    /// Whether to take a snapshot before and during `operation`.
    pub(crate) fn wanted(&self, operation: u64) -> (bool, bool) {
        match self.plan {
            CutPlan::Never => (false, false),
            CutPlan::At(at) => (false, at == operation),
            CutPlan::Everywhere => (true, true),
        }
    }
}
