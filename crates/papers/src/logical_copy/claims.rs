//! Values of claims that the drive alone can decide.

use super::premise::Premise;
use super::runs::Runs;
use super::{
    CLAIMS, COMMAND_US, EXT4, INFERRED_US, JUDGED, LOGICAL, Model, ORG, Phase, READ_WRITE, SHIPPED, Setup,
    VICTIMS,
};
use crate::Claim;
use crate::figure::reduced;
use crate::table::Values;

pub(super) fn all(runs: &Runs<'_>, premises: &[Premise], is_set: bool) -> Vec<Claim> {
    let mut values = Values::default();
    for (id, value) in of_model(runs, SHIPPED) {
        values.add(id, value);
    }
    values.add("premise", premises.iter().find(|of| of.model == SHIPPED).map(Premise::share));
    let judged = Setup::new(Phase::Aged, JUDGED, LOGICAL);
    // A command time set by the user applies to all runs.
    let times: &[_] =
        if is_set { &[("set", COMMAND_US)] } else { &[("preset", COMMAND_US), ("inferred", INFERRED_US)] };
    for &(name, command_us) in times {
        let over_org = runs.speed_over(Setup { command_us, ..judged }, ORG);
        values.add(&format!("alone-org {name}"), over_org);
    }
    values.judged(CLAIMS, "")
}

pub(super) fn of_model(runs: &Runs<'_>, model: Model) -> Vec<(&'static str, Option<f64>)> {
    let aged = |victims| Setup { model, ..Setup::new(Phase::Aged, victims, LOGICAL) };
    let judged = aged(JUDGED);
    let steps = VICTIMS.windows(2).map(|pair| Some(runs.speed(aged(pair[1]))? - runs.speed(aged(pair[0]))?));
    let speeds = VICTIMS.map(|victims| runs.speed(aged(victims)));
    let over_org = VICTIMS.map(|victims| runs.speed_over(aged(victims), ORG));
    let synced = Setup { sync: true, ..judged };
    let map_share = |mode| runs.map_share(Setup { mode, ..synced });
    let random = reduced([map_share(EXT4), map_share(ORG)], f64::min);
    let log = map_share(READ_WRITE);
    vec![
        ("alone-writes", runs.programs(judged)),
        ("alone-speed", runs.speed(judged)),
        ("alone-least", reduced(speeds, f64::min)),
        ("alone-steps", reduced(steps, f64::min)),
        ("alone-ext4", runs.programs_over(judged, EXT4)),
        ("alone-map", random.zip(log).map(|(random, log)| random / log)),
        ("alone-org-most", reduced(over_org, f64::max)),
        (
            "alone-threaded",
            runs.first(Setup { mode: ORG, ..aged(0.5) })
                .zip(runs.first(Setup { mode: READ_WRITE, ..aged(0.5) }))
                .map(|(org, log)| org.us() / log.us()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logical_copy::recovery;

    // Together with the claims on a kernel, which exist on Linux.
    #[test]
    #[cfg(target_os = "linux")]
    fn every_claim_is_computed() {
        use crate::logical_copy::{kernel::Results, kernel_claims, kernel_recovery};
        let runs = Runs::new(Vec::new());
        let mut claims = [all(&runs, &[], false), all(&runs, &[], true), recovery::claims(&[])].concat();
        claims.extend(kernel_recovery::claims(&[]));
        for commands_us in [&[COMMAND_US, INFERRED_US][..], &[COMMAND_US]] {
            claims.extend(kernel_claims::claims(&Results::made_up(commands_us, |_| 1.0)));
        }
        crate::table::tests::assert_all_computed(CLAIMS, &claims);
    }
}
