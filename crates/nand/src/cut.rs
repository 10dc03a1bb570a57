//! Power cuts: copies of the flash at a power failure during an operation.
//!
//! A cut does not stop the chip. It takes a copy of the array with the operation at hand half done, and
//! the run goes on: so one run yields the flash after a cut at each of its operations.

use crate::Nand;

/// Schedule of [`Snapshot`]s. Operations are numbered from 1, as
/// [`OpCounts::changes`](crate::OpCounts::changes) counts them.
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

    /// Returns the flash as a power cut at this moment leaves it. With timing, unfinished operations are
    /// tracked only while a cut is planned, whatever the plan. Without a plan, every issued operation counts as
    /// complete.
    fn cut_now(&mut self) -> Snapshot<Self>;
}

/// Programs and erases interrupted by a power cut, on flash with timing.
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
    /// True if the operation had begun: its page is illegible, or its block half erased.
    pub begun: bool,
    /// Operations in flight at the cut.
    pub met: Met,
    /// Flash after the cut. Its own plan is [`CutPlan::Never`].
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

    /// Returns whether to take a snapshot before `operation` and during it.
    pub(crate) fn wanted(&self, operation: u64) -> (bool, bool) {
        match self.plan {
            CutPlan::Never => (false, false),
            CutPlan::At(at) => (false, at == operation),
            CutPlan::Everywhere => (true, true),
        }
    }
}
