use strobe_ftl::gc::{AnyPolicy, VictimPolicy};
use strobe_ftl::{
    CopyContext, DataTag, Placement, Relocated, StreamId, StreamLayout, VictimGroup, WriteContext,
};
use strobe_nand::{NoMedium, Untimed};
use strobe_types::{BlockId, Geometry, Lpn, Ppa, StateError, StateReader, StateWriter};

use super::{BuildError, Plan, block_scheme, handles};
use crate::config::DriveConfig;
use crate::device::Simulated;

/// Builder of a page-mapped drive with a custom victim policy or placement.
#[derive(Debug)]
pub struct DriveBuilder<'a> {
    config: &'a DriveConfig,
    timing: bool,
    seed: u64,
    geometry: Geometry,
    logical_units: u32,
    policy: Option<AnyPolicy>,
    placement: Option<OwnPlacement>,
}

impl<'a> DriveBuilder<'a> {
    /// Builder of the drive of `config`. Rejects block-mapped drives.
    pub fn new(config: &'a DriveConfig, timing: bool, seed: u64) -> Result<Self, BuildError> {
        let Plan { geometry, logical: logical_units, .. } = Plan::new(config, seed)?;
        if block_scheme(&config.ftl.mapping).is_some() {
            return Err(BuildError::NoVictims(config.ftl.mapping.clone()));
        }
        Ok(Self { config, timing, seed, geometry, logical_units, policy: None, placement: None })
    }

    /// Geometry of the drive's flash.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Logical mapping units of the drive.
    pub fn logical_units(&self) -> u32 {
        self.logical_units
    }

    /// Chooses victims by `policy` instead of the configured policy. Each hook costs a virtual call.
    pub fn with_victims(self, policy: impl VictimPolicy + Clone + Send + 'static) -> Self {
        Self { policy: Some(AnyPolicy::new(policy)), ..self }
    }

    /// Chooses streams of `layout` by `placement`. The drive panics if `placement` returns a stream outside
    /// the layout.
    pub fn with_placement(self, layout: StreamLayout, placement: impl Placement + 'static) -> Self {
        Self { placement: Some(OwnPlacement { layout, placement: Box::new(placement) }), ..self }
    }

    /// Builds the drive.
    pub fn build(self) -> Result<Box<dyn Simulated>, BuildError> {
        if let Some(StreamLayout { host, copies: (first, end), .. }) =
            self.placement.as_ref().map(|own| own.layout).filter(|layout| !layout.is_sound())
        {
            return Err(BuildError::Streams { host, first, end });
        }
        if self.policy.is_some() && handles::groups(self.config) > 1 {
            return Err(BuildError::GroupsWith("a victim policy with a name, or a formula"));
        }
        let plan = Plan { own: self.placement.as_ref(), ..Plan::new(self.config, self.seed)? };
        let policy = self.policy.map_or_else(|| plan.policy(), Ok)?;
        if plan.only_counts(self.timing) {
            let chip = plan.chip::<_, NoMedium>(Untimed::default());
            return plan.page_mapped(chip, policy).map(|(drive, _)| drive);
        }
        plan.build(self.timing, || Ok(policy))
    }
}

#[derive(Clone, Debug)]
/// Custom placement; its streams are checked against `layout`.
pub(crate) struct OwnPlacement {
    pub(crate) layout: StreamLayout,
    placement: Box<dyn Placement>,
}

impl OwnPlacement {
    #[track_caller]
    fn check_copy(&self, stream: StreamId) {
        let (first, end) = self.layout.copies;
        assert!(
            (first..end).contains(&stream.get()),
            "placement bug: stream {} for a relocated unit; its layout has {first} to {}",
            stream.get(),
            end - 1
        );
    }
}

impl Placement for OwnPlacement {
    fn is_cold(&self, stream: StreamId) -> bool {
        self.placement.is_cold(stream)
    }

    fn sorts_victims(&self) -> bool {
        self.placement.sorts_victims()
    }

    fn relevant(&self, tag: DataTag) -> DataTag {
        self.placement.relevant(tag)
    }

    fn goes_by_tag(&self) -> bool {
        self.placement.goes_by_tag()
    }

    fn on_batch(&mut self, lpns: &mut dyn Iterator<Item = Lpn>, context: WriteContext) {
        self.placement.on_batch(lpns, context);
    }

    fn prefetch(&self, lpn: Lpn) {
        self.placement.prefetch(lpn);
    }

    fn for_write(&mut self, lpn: Lpn, context: WriteContext, tick: u64) -> StreamId {
        let stream = self.placement.for_write(lpn, context, tick);
        let host = self.layout.host;
        assert!(
            stream.get() < host,
            "placement bug: stream {} for a host write; its layout has 0 to {}",
            stream.get(),
            host - 1
        );
        stream
    }

    fn moves_alike(&self) -> bool {
        self.placement.moves_alike()
    }

    fn for_copy(&mut self, lpn: Lpn, from: &CopyContext) -> StreamId {
        let stream = self.placement.for_copy(lpn, from);
        self.check_copy(stream);
        stream
    }

    fn arrange(&mut self, units: &mut [Relocated], from: &mut dyn FnMut(Ppa) -> CopyContext) {
        self.placement.arrange(units, from);
        units.iter().for_each(|unit| self.check_copy(unit.to));
    }

    fn on_written(&mut self, lpn: Lpn, tick: u64) {
        self.placement.on_written(lpn, tick);
    }

    fn on_opened(&mut self, block: BlockId, stream: StreamId, tick: u64) {
        self.placement.on_opened(block, stream, tick);
    }

    fn on_closed(&mut self, closed: &CopyContext) {
        self.placement.on_closed(closed);
    }

    fn on_placed(&mut self, lpns: &mut dyn Iterator<Item = Lpn>, block: BlockId) {
        self.placement.on_placed(lpns, block);
    }

    fn on_unmapped(&mut self, lpn: Lpn) {
        self.placement.on_unmapped(lpn);
    }

    fn on_victim(&mut self, from: &CopyContext, valid: &mut dyn Iterator<Item = Lpn>) {
        self.placement.on_victim(from, valid);
    }

    fn on_collected(&mut self, from: &CopyContext) {
        self.placement.on_collected(from);
    }

    fn victim_group(&self) -> Option<VictimGroup<'_>> {
        self.placement.victim_group()
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }

    fn after_cut(&self) -> Box<dyn Placement> {
        Box::new(Self { layout: self.layout, placement: self.placement.after_cut() })
    }

    fn save(&self, out: &mut StateWriter<'_>) {
        self.placement.save(out);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.placement.load(from)
    }
}
