//! A user-defined placement in thirty lines of Rust, compared with none on the same workload. See
//! docs/your-own-policy.md; run with `cargo run --release -p strobe-sim --example own_placement`.

use strobe_sim::{
    ConfigError, CopyContext, DriveBuilder, Experiment, Lpn, Placement, RunResult, StreamId, StreamLayout,
    WriteContext, runner,
};

/// Separates units that are rewritten soon from the others.
#[derive(Clone, Debug)]
struct Recent {
    /// Age in host writes below which a unit counts as hot.
    window: u64,
    clock: u64,
    /// Last host write of each unit.
    last_write: Vec<u64>,
}

impl Placement for Recent {
    fn for_write(&mut self, lpn: Lpn, _context: WriteContext, _tick: u64) -> StreamId {
        self.clock += 1;
        let last = std::mem::replace(&mut self.last_write[lpn.index()], self.clock);
        let is_hot = last > 0 && self.clock - last < self.window;
        StreamId::new(if is_hot { 0 } else { 1 })
    }

    fn for_copy(&mut self, _lpn: Lpn, _from: &CopyContext) -> StreamId {
        StreamId::new(2)
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
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

fn recent(experiment: &Experiment) -> Result<RunResult, Box<dyn std::error::Error>> {
    let builder = DriveBuilder::new(&experiment.drive, experiment.run.timing, experiment.seed)?;
    let units = builder.logical_units();
    let placement = Recent { window: u64::from(units) / 4, clock: 0, last_write: vec![0; units as usize] };
    // Two host streams, and one for relocated units.
    let drive = builder.with_placement(StreamLayout::separate(2, 1), placement).build()?;
    Ok(runner::run_on(experiment, drive, &mut ())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let experiment = experiment()?;
    for (name, result) in [("none", runner::run(&experiment, &mut ())?), ("recent", recent(&experiment)?)] {
        println!("{name:8} write amplification {:.3}", result.waf.unwrap_or(f64::NAN));
    }
    Ok(())
}
