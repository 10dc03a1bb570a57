//! Hot/cold traffic on drives that separate hot and cold data.
//!
//! No formula exists. The lower bound is a pair of separate drives with the best division of the spare space;
//! the upper bound is a plain log with greedy victims, which mixes them (docs/MODEL.md, section 7).

use std::fmt::Write as _;

use strobe_nand::NandOp;
use strobe_ssd::{GcConfig, GcStream, SchemeName};
use strobe_workload::oracle;

use super::{Cell, GATE, Policy, Run, SEED, Traffic, drive_config};

/// The reference for mixed data is known for this size only.
const UNITS_PER_BLOCK: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Combination {
    pub(crate) victim: &'static str,
    pub(crate) placement: SchemeName,
    pub(crate) stream: GcStream,
    pub(crate) blocks: u32,
    /// ρ, the hot share of the addresses and the hot share of the writes.
    pub(crate) traffic: (f64, f64, f64),
}

struct Outcome {
    rho: f64,
    separated: f64,
    simulated: f64,
    mixed: f64,
}

impl Outcome {
    fn lies_between(&self) -> bool {
        (self.separated * (1.0 - GATE)..=self.mixed * (1.0 + GATE)).contains(&self.simulated)
    }
}

impl Combination {
    fn gc(&self) -> GcConfig {
        // Sorting needs many victims per call: a call takes about as many as the erased blocks in reserve can
        // absorb.
        let (min_free_blocks, net_blocks) = match self.placement {
            SchemeName::Sorted => (32, 2),
            _ => (0, 1),
        };
        GcConfig {
            victim: self.victim.to_owned(),
            stream: self.stream,
            min_free_blocks,
            net_blocks,
            ..GcConfig::default()
        }
    }

    /// Free blocks, and half of an open block for each copy stream, as the [module above](super) explains.
    /// Sorted migration has one such stream: blocks for cold data are filled within a call.
    fn idle_blocks(&self) -> f64 {
        match self.placement {
            SchemeName::HotCold => 3.0 + 2.0 * 0.5,
            SchemeName::Sorted => 31.0 + 0.5,
            _ => 2.0 + 0.5,
        }
    }

    fn measure(&self) -> Outcome {
        let (rho, f, r) = self.traffic;
        let units = (f64::from(self.blocks) - self.idle_blocks()) * f64::from(UNITS_PER_BLOCK);
        let logical = (rho * units).round() as u32;
        let mut config = drive_config(self.blocks, UNITS_PER_BLOCK, logical, self.gc());
        config.ftl.placement.scheme = self.placement.into();
        let mut run = Run::filled(&config, &Traffic::HotCold { f, r }.config(), SEED);
        run.write(40 * u64::from(logical));
        let before = run.engine.stats();
        run.write(10 * u64::from(logical));
        let delta = run.engine.stats().since(&before);
        run.engine.check().expect("every invariant holds");
        let simulated = delta.nand.total(NandOp::Program) as f64 / delta.host.units_written as f64;
        let rho = f64::from(logical) / units;
        let separated = oracle::hot_cold_separated_greedy(rho, UNITS_PER_BLOCK, f, r);
        let separated = separated.expect("within the domain").write_amplification;
        let mixed = Cell::new(Policy::GreedyLog, UNITS_PER_BLOCK, self.traffic.0).mixed_greedy(f);
        Outcome { rho, separated, simulated, mixed }
    }
}

#[track_caller]
pub(crate) fn assert_between_separated_and_mixed(combinations: &[Combination]) {
    let mut table = format!(
        "seed {SEED}\n{:<14}{:<10}{:<6}{:>6}{:>9}{:>9}{:>10}{:>11}{:>8}\n",
        "victim", "placement", "stream", "T", "ρ", "f/r", "separated", "simulated", "mixed"
    );
    let mut misses = 0;
    for combination in combinations {
        let outcome = combination.measure();
        let missed = !outcome.lies_between();
        misses += u32::from(missed);
        let Combination { victim, placement, stream, blocks, traffic: (_, f, r) } = combination;
        writeln!(
            table,
            "{victim:<14}{:<10}{:<6}{blocks:>6}{:>9.4}{:>9}{:>10.3}{:>11.3}{:>8.3}{}",
            format!("{placement:?}"),
            format!("{stream:?}"),
            outcome.rho,
            format!("{f}/{r}"),
            outcome.separated,
            outcome.simulated,
            outcome.mixed,
            if missed { "  MISS" } else { "" },
        )
        .expect("a string takes any text");
    }
    println!("{table}");
    assert_eq!(misses, 0, "outside their bounds by more than {} %:\n{table}", GATE * 100.0);
}
