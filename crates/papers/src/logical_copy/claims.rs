//! Values of the paper's claims, as far as the drive alone can tell.

use super::runs::Runs;
use super::{CLAIMS, COMMAND_US, EXT4, INFERRED_US, JUDGED, LOGICAL, ORG, Phase, READ_WRITE, Setup, VICTIMS};
use crate::Claim;
use crate::figure::reduced;
use crate::table::Values;

/// `is_set` if somebody has set the time of a command, which is that in all runs then.
pub(super) fn all(runs: &Runs<'_>, is_set: bool) -> Vec<Claim> {
    let aged = |victims| Setup::new(Phase::Aged, victims, LOGICAL);
    let judged = aged(JUDGED);
    let steps = VICTIMS.windows(2).map(|pair| Some(runs.speed(aged(pair[1]))? - runs.speed(aged(pair[0]))?));
    let least = VICTIMS.map(|victims| runs.speed(aged(victims)));
    let synced = Setup { sync: true, ..judged };
    let map_share = |mode| runs.map_share(Setup { mode, ..synced });
    let random = reduced([map_share(EXT4), map_share(ORG)], f64::min);
    let log = map_share(READ_WRITE);
    let mut values = Values::default();
    values.add("alone-writes", runs.programs(judged));
    values.add("alone-speed", runs.speed(judged));
    values.add("alone-least", reduced(least, f64::min));
    values.add("alone-steps", reduced(steps, f64::min));
    values.add("alone-ext4", runs.programs_over(judged, EXT4));
    values.add("alone-map", random.zip(log).map(|(random, log)| random / log));
    let times: &[_] =
        if is_set { &[("set", COMMAND_US)] } else { &[("preset", COMMAND_US), ("inferred", INFERRED_US)] };
    for &(name, command_us) in times {
        let over_org = runs.speed_over(Setup { command_us, ..judged }, ORG);
        values.add(&format!("alone-org {name}"), over_org);
    }
    values.judged(CLAIMS, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logical_copy::recovery;

    /// Together with those of a kernel, which are there on Linux.
    #[test]
    #[cfg(target_os = "linux")]
    fn every_claim_is_computed() {
        use crate::logical_copy::{kernel::Results, kernel_claims};
        let runs = Runs::new(Vec::new());
        let mut claims = [all(&runs, false), all(&runs, true), recovery::claims(&[])].concat();
        for commands_us in [&[COMMAND_US, INFERRED_US][..], &[COMMAND_US]] {
            claims.extend(kernel_claims::claims(&Results::made_up(commands_us, |_| 1.0)));
        }
        crate::table::tests::assert_all_computed(CLAIMS, &claims);
    }
}
