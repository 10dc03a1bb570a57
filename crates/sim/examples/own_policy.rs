//! A user-defined victim policy in thirty lines of Rust, compared with greedy on the same workload. See
//! docs/your-own-policy.md; run with `cargo run --release -p strobe-sim --example own_policy`.

use strobe_sim::{
    BlockId, BlockView, ConfigError, DriveBuilder, Experiment, Ppa, Prng, RunResult, VictimPolicy, runner,
};

/// Greedy with a minimum age: hot data in a young block will soon be invalidated and need not be copied.
#[derive(Clone)]
struct Patient {
    /// Minimum age of a victim, in ticks (host writes).
    min_age: u64,
    /// Closing tick of each block; `None` if it is not a candidate.
    closed: Vec<Option<u64>>,
}

impl VictimPolicy for Patient {
    fn closed(&mut self, block: BlockId, _valid: u32, tick: u64) {
        self.closed[block.index()] = Some(tick);
    }

    fn invalidated(&mut self, _unit: Ppa, _block: BlockId, _valid: u32, _tick: u64) {}

    fn taken(&mut self, block: BlockId) {
        self.closed[block.index()] = None;
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let candidates = (0..).map(BlockId::new).zip(&self.closed);
        let ranked = candidates.filter_map(|(block, closed)| {
            let is_young = view.tick() - (*closed)? < self.min_age;
            Some((is_young && view.valid(block) > 0, view.valid(block), block))
        });
        ranked.min().map(|(_, _, block)| block)
    }

    fn candidates(&self) -> u32 {
        self.closed.iter().flatten().count() as u32
    }

    fn bytes_per_block() -> u64 {
        16
    }
}

fn experiment() -> Result<Experiment, ConfigError> {
    Experiment::from_toml(
        r#"
        [drive]
        nand = { blocks_per_plane = 512, endurance_pe = 0 }
        ftl.over_provisioning = 0.1
        [workload]
        kind = "hotcold"
        hot_fraction = 0.1
        hot_write_share = 0.9
        [run]
        warmup = "10x"
        measure = "10x"
        timing = false
        "#,
    )
}

fn patient(experiment: &Experiment) -> Result<RunResult, Box<dyn std::error::Error>> {
    let builder = DriveBuilder::new(&experiment.drive, experiment.run.timing, experiment.seed)?;
    let geometry = builder.geometry();
    let patient =
        Patient { min_age: u64::from(geometry.units()) / 4, closed: vec![None; geometry.blocks() as usize] };
    let drive = builder.with_victims(patient).build()?;
    Ok(runner::run_on(experiment, drive, &mut ())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let experiment = experiment()?;
    for (name, result) in [("greedy", runner::run(&experiment, &mut ())?), ("patient", patient(&experiment)?)]
    {
        println!("{name:8} write amplification {:.3}", result.waf.unwrap_or(f64::NAN));
    }
    Ok(())
}
