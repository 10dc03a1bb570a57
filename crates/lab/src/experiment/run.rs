//! The `[run]` table: what to run and what to measure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_ssd::schema;
use strobe_types::defaults;
use toml::{Table, Value};

use super::{Amount, Experiment, WorkloadConfig};

defaults! {
    /// What to run and what to measure.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct RunConfig {
        /// Write the whole drive once, in order, before anything else. Default: true for generators,
        /// false for traces.
        pub prefill: Option<bool> = None;
        /// Run the workload for this long before measuring: host pages (mapping units read, written or
        /// trimmed), or "12x" capacities. Default 0. For traces: overwrite the drive at random for
        /// this long.
        pub warmup: Amount = Amount::Pages(0);
        /// Measure this long: host pages (mapping units read, written or trimmed), or "10x" capacities.
        /// Default "1x"; for traces: to the end; with one of the until keys: without limit.
        pub measure: Option<Amount> = None;
        /// End the run when this many blocks have gone bad in use, at most 1024 requests later. A trace
        /// ends after `repeat` times in any case. Default: not.
        #[schemars(range(min = 1, max = 4_294_967_295u32))]
        pub until_bad_blocks: Option<u32> = None;
        /// Go on until the drive refuses writes because too many blocks have gone bad. A trace ends
        /// after `repeat` times in any case. With until_bad_blocks, what comes first ends the run.
        /// Default false.
        pub until_end_of_life: bool = false;
        /// Simulate time; false: count operations only. Default true.
        pub timing: bool = true;
        /// Run the whole-state checker after each phase and at each sample. Default false.
        pub check: bool = false;
    }
}

impl RunConfig {
    /// The run that `table` describes.
    pub(super) fn read(mut table: Table) -> Result<Self, KeyError> {
        let schema = schema::of::<Self>();
        schema::check(&mut table, &schema, "run")?;
        for key in ["warmup", "measure"] {
            if let Some(Value::String(text)) = table.get(key)
                && Amount::parse(text).is_none()
            {
                let allowed = "a count of host pages such as 1000000, or capacities such as \"12x\"";
                return Err(KeyError::value(format!("run.{key}"), format!("\"{text}\""), allowed, ""));
            }
        }
        schema::read(table, &schema, "run")
    }

    /// Whether the run goes on until the drive wears out, in one way or the other.
    pub fn until_worn(&self) -> bool {
        self.until_bad_blocks.is_some() || self.until_end_of_life
    }
}

/// Refuses a run that waits for wear that never comes.
pub(super) fn check_end(experiment: &Experiment) -> Result<(), KeyError> {
    let Experiment { drive, workload, run, .. } = experiment;
    let WorkloadConfig::Synthetic(workload) = workload else { return Ok(()) };
    if !run.until_worn() || run.measure.is_some() {
        return Ok(());
    }
    let (key, given) = match run.until_bad_blocks {
        Some(blocks) => ("run.until_bad_blocks", blocks.to_string()),
        None => ("run.until_end_of_life", "true".to_owned()),
    };
    let refuse = |cure: &str, meaning: &str| {
        let allowed = format!("given with {cure}, or with run.measure as a bound");
        Err(KeyError::value(key, given.clone(), allowed, meaning))
    };
    if drive.nand.endurance_pe == 0 && drive.nand.program_fail_rate == 0.0 {
        let cure = "drive.nand.endurance_pe or drive.nand.program_fail_rate above 0";
        return refuse(cure, "Otherwise no block ever goes bad and the run never ends.");
    }
    if workload.generator.write_fraction == 0.0 {
        return refuse("workload.write_fraction above 0", "Reads wear nothing out: the run would never end.");
    }
    Ok(())
}
