//! Workload commands that the drive would refuse, found before the run.

use strobe_ssd::{CopyMode, KeyError, SchemeName};
use strobe_types::SECTOR_BYTES;
use strobe_workload::lfs::{Cleaning, LfsConfig};

use super::effect::Given;
use crate::Experiment;
use crate::experiment::WorkloadConfig;

pub(super) fn check_sizes(experiment: &Experiment) -> Result<(), KeyError> {
    let limits = &experiment.drive.controller.limits;
    for (path, workload) in experiment.workload.generators() {
        let generator = &workload.generator;
        let placement = &experiment.drive.ftl.placement;
        let handle = workload.host.placement_handle;
        let has_handles = placement.scheme == SchemeName::Handles || placement.scheme.uses("handle");
        let handles = u16::from(placement.handles) * u16::from(placement.groups.max(1));
        if has_handles && handle >= handles {
            let allowed = match placement.groups {
                0 | 1 => format!("below {handles}, the handles of the drive (drive.ftl.placement.handles)"),
                groups => {
                    format!("below {handles}, the handles (drive.ftl.placement.handles) of {groups} groups")
                }
            };
            return Err(KeyError::value(format!("{path}.placement_handle"), handle.to_string(), allowed, ""));
        }
        if generator.trim_fraction > 0.0 {
            let ranges = generator.trim_ranges.into();
            within(&format!("{path}.trim_ranges"), ranges, limits.trim_ranges.into(), "trim_ranges")?;
        }
    }
    let WorkloadConfig::Lfs(config) = &experiment.workload else { return Ok(()) };
    let LfsConfig { trim_ranges, copy_ranges, segment_bytes, request_bytes, .. } = *config;
    let sectors = |bytes: u32| u64::from(bytes) / SECTOR_BYTES;
    within("workload.trim_ranges", trim_ranges.into(), limits.trim_ranges.into(), "trim_ranges")?;
    let segment = sectors(segment_bytes);
    sized(
        "workload.segment_bytes",
        segment_bytes,
        segment,
        limits.trim_range_sectors.into(),
        "trim_range_sectors",
    )?;
    let trimmed = u64::from(trim_ranges) * segment;
    sized("workload.trim_ranges", trim_ranges, trimmed, limits.trim_sectors, "trim_sectors")?;
    if config.cleaning == Cleaning::Copy {
        within("workload.copy_ranges", copy_ranges.into(), limits.copy_ranges.into(), "copy_ranges")?;
        let request = sectors(request_bytes);
        let range_limit = limits.copy_range_sectors.into();
        sized("workload.request_bytes", request_bytes, request, range_limit, "copy_range_sectors")?;
        // A copy command writes to a single segment and never exceeds it.
        let copied = (u64::from(copy_ranges) * request).min(segment);
        sized("workload.copy_ranges", copy_ranges, copied, limits.copy_sectors.into(), "copy_sectors")?;
    }
    Ok(())
}

/// 0 is no limit.
fn within(key: &str, given: u64, allowed: u64, name: &str) -> Result<(), KeyError> {
    if allowed == 0 || given <= allowed {
        return Ok(());
    }
    let allowed = format!("at most {allowed}, the limit of the drive (drive.controller.limits.{name})");
    Err(KeyError::value(key, given.to_string(), allowed, ""))
}

/// Refuses a key that makes commands of more than `allowed` sectors; 0 is no limit.
fn sized(key: &str, given: u32, sectors: u64, allowed: u64, name: &str) -> Result<(), KeyError> {
    if allowed == 0 || sectors <= allowed {
        return Ok(());
    }
    let allowed = format!(
        "smaller: it gives commands of {sectors} sectors, and the limit of the drive is {allowed} \
         (drive.controller.limits.{name})"
    );
    Err(KeyError::value(key, given.to_string(), allowed, ""))
}

/// Refuses copies unless drive.ftl.copy_mode is given. The default mode reads and programs, which makes a
/// comparison with reads and writes meaningless.
pub(super) fn check_copies(experiment: &Experiment, given: &Given) -> Result<(), KeyError> {
    let WorkloadConfig::Lfs(config) = &experiment.workload else { return Ok(()) };
    let is_logical = experiment.drive.ftl.copy_mode == CopyMode::Logical;
    if config.cleaning != Cleaning::Copy || is_logical || given.has("drive.ftl.copy_mode") {
        return Ok(());
    }
    let allowed = "given with drive.ftl.copy_mode: \"logical\" for copies that only change the map, or \
                   \"physical\" for copies by reading and programming";
    Err(KeyError::value("workload.cleaning", "\"copy\"", allowed, ""))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{ConfigError, Experiment};

    const COPY: &str = "[drive]\npreset=\"jasmine-4g\"\n[workload]\nkind=\"lfs\"\ncleaning=\"copy\"";

    fn load(text: &str, sets: &[&str]) -> Result<Experiment, ConfigError> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Experiment::from_table(text.parse().expect("TOML"), &sets, Path::new(""))
    }

    fn refusal(text: &str, sets: &[&str]) -> String {
        load(text, sets).expect_err(text).to_string()
    }

    #[test]
    fn copies_want_to_know_what_the_drive_makes_of_them() {
        let error = refusal(COPY, &[]);
        assert!(error.contains("workload.cleaning") && error.contains("drive.ftl.copy_mode"), "{error}");
        assert!(error.contains("logical") && error.contains("physical"), "{error}");
        for mode in ["logical", "physical"] {
            let experiment = load(COPY, &[&format!("drive.ftl.copy_mode={mode}")]).expect(mode);
            load(&experiment.to_toml(), &[]).expect("what is printed can be used again");
        }
        load(COPY, &["workload.cleaning=move"]).expect("moves need no copies");
    }

    #[test]
    fn commands_that_the_drive_would_refuse_are_refused_before_the_run() {
        let logical = "drive.ftl.copy_mode=logical";
        for (limit, key) in [
            ("trim_ranges=8", "workload.trim_ranges = 64"),
            ("trim_range_sectors=8", "workload.segment_bytes"),
            ("trim_sectors=4096", "workload.trim_ranges"),
            ("copy_ranges=16", "workload.copy_ranges = 128"),
            ("copy_range_sectors=8", "workload.request_bytes"),
            ("copy_sectors=8", "workload.copy_ranges"),
        ] {
            let error = refusal(COPY, &[logical, &format!("drive.controller.limits.{limit}")]);
            let name = limit.split('=').next().expect("a name");
            assert!(error.contains(key) && error.contains(&format!("limits.{name}")), "{error}");
        }
        load(COPY, &[logical, "drive.controller.limits.copy_sectors=4096"]).expect("a segment");
        let trims = "[workload]\ntrim_fraction=0.1\ntrim_ranges=64";
        load(trims, &["drive.controller.limits.trim_ranges=64"]).expect("as many as it takes");
        let error = refusal(trims, &["drive.controller.limits.trim_ranges=63"]);
        assert!(error.contains("workload.trim_ranges = 64") && error.contains("at most 63"), "{error}");
    }

    #[test]
    fn keys_without_effect_and_runs_without_end_are_refused() {
        let lfs = "[workload]\nkind=\"lfs\"";
        for (sets, expected) in [
            (&["workload.copy_ranges=3"][..], "workload.cleaning = \"copy\""),
            (&["workload.checkpoint_every=4096"], "threaded"),
            (&["run.measure=60s"], "run.measure"),
            (&["run.until_end_of_life=true", "drive.nand.endurance_pe=0"], "endurance_pe"),
            (&["workload.theta=1"], "unknown key workload.theta"),
            (&["workload.segment_byte=1"], "did you mean workload.segment_bytes"),
            (&["workload.cleaning=moves"], "did you mean move"),
            (&["workload.utilization=1"], "workload.utilization"),
        ] {
            let error = refusal(lfs, sets);
            assert!(error.contains(expected), "{sets:?}: {error}");
        }
        let error = refusal("[workload]\ntrim_ranges=2", &[]);
        assert!(error.contains("trim_fraction"), "{error}");
        let error = refusal("[workload]\nkind=\"lfs\"\n[[jobs]]\nname=\"one\"", &[]);
        assert!(error.contains("workload.kind") && error.contains("alone"), "{error}");
        let error = refusal("[[jobs]]\nname=\"one\"\nkind=\"lfs\"", &[]);
        assert!(error.contains("jobs[0].kind"), "{error}");
    }
}
