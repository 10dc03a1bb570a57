//! Power cuts: copies of the flash as a power failure during an operation leaves it.
//!
//! A cut does not stop the chip. It copies the array with the current operation half done, and the run
//! continues. One run thus yields the flash after a cut at each of its operations.

use crate::Nand;

/// Schedule of [`Snapshot`]s. Operations are numbered from 1, as counted by
/// [`OpCounts::changes`](crate::OpCounts::changes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutPlan {
    /// No snapshot.
    #[default]
    Never,
    /// During this operation.
    At(u64),
    /// Before and during every operation.
    Everywhere,
}

/// Flash whose power can be cut.
///
/// **The caller promises** nothing beyond [`Nand`]. **The implementer promises** that a planned cut does not
/// change the flash itself, and that a snapshot equals the flash after a cut at that operation.
pub trait PowerCuts: Nand + Sized {
    /// Plans snapshots. Replaces an earlier plan and drops its snapshots.
    fn plan_cuts(&mut self, plan: CutPlan);

    /// Snapshots taken since the last call, in order.
    fn take_snapshots(&mut self) -> Vec<Snapshot<Self>>;

    /// Returns the flash after a power cut now. With timing, unfinished operations are tracked only under a
    /// plan other than [`CutPlan::Never`]. Without one, every issued operation counts as complete.
    fn cut_now(&mut self) -> Snapshot<Self>;
}

/// Programs and erases interrupted by a power cut, on flash with timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutOperations {
    /// Programs begun, suspended ones included.
    pub programs: u32,
    /// Erases begun, suspended ones included.
    pub erases: u32,
    /// Programs that were suspended for a read.
    pub suspended_programs: u32,
    /// Erases that were suspended for a read.
    pub suspended_erases: u32,
}

/// The flash after a power cut.
#[derive(Clone, Debug)]
pub struct Snapshot<N> {
    /// Operation that was cut short or about to begin. For [`PowerCuts::cut_now`], the last one issued.
    pub operation: u64,
    /// True if the operation had begun: its page is unreadable, or its block half erased.
    pub begun: bool,
    /// Operations in flight at the cut.
    pub in_flight: CutOperations,
    /// Flash after the cut. Its plan is [`CutPlan::Never`].
    pub flash: N,
}

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

    pub(crate) fn wanted(&self, operation: u64) -> (bool, bool) {
        match self.plan {
            CutPlan::Never => (false, false),
            CutPlan::At(at) => (false, at == operation),
            CutPlan::Everywhere => (true, true),
        }
    }
}
