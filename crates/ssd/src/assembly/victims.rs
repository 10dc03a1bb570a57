use strobe_ftl::gc::{
    AnyPolicy, Formula, Greedy, Kinetic, LinearScore, Midas, Sampled, Sampling, SecondChance, TwoRegions,
};

use super::{BuildError, Plan};
use crate::config::Victim;

impl Plan<'_> {
    pub(super) fn policy_of_group(&self) -> Result<AnyPolicy, BuildError> {
        let gc = &self.config.ftl.gc;
        let (blocks, units) = (self.geometry.blocks(), self.geometry.units_per_block());
        let sampled = |how| AnyPolicy::new(Sampled::new(blocks, how));
        Ok(match Victim::named(&gc.victim) {
            Some(Victim::Greedy { windowed }) => AnyPolicy::new(self.greedy(windowed)),
            Some(Victim::Score(score)) => AnyPolicy::new(self.kinetic(score)?),
            Some(Victim::Scata(age)) => AnyPolicy::new(Kinetic::scata(blocks, self.units_of_exact()?, age)),
            Some(Victim::Fifo) => sampled(Sampling::Fifo),
            Some(Victim::Random) => sampled(Sampling::Choices(1)),
            Some(Victim::DChoices) => sampled(Sampling::Choices(gc.choices)),
            Some(Victim::Midas) => AnyPolicy::new(Midas::new(blocks)),
            Some(Victim::TwoRegions) => {
                AnyPolicy::new(TwoRegions::new(blocks, self.config.ftl.placement.kind().host_streams()))
            }
            Some(Victim::SecondChance) => AnyPolicy::new(SecondChance::new(blocks)),
            None => AnyPolicy::new(Formula::new(blocks, units, &gc.victim)?),
        })
    }

    pub(super) fn greedy(&self, windowed: bool) -> Greedy {
        let blocks = self.geometry.blocks();
        if windowed { Greedy::windowed(blocks, self.config.ftl.gc.window) } else { Greedy::new(blocks) }
    }

    fn kinetic(&self, score: LinearScore) -> Result<Kinetic<LinearScore>, BuildError> {
        Ok(Kinetic::new(self.geometry.blocks(), self.units_of_exact()?, score))
    }

    fn units_of_exact(&self) -> Result<u32, BuildError> {
        let units = self.geometry.units_per_block();
        if units <= Kinetic::UNITS_PER_BLOCK_MAX { Ok(units) } else { Err(BuildError::BlockTooLarge(units)) }
    }
}
