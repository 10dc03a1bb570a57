//! Sensitivity to choices left open by the paper, and to less skewed writes.

use super::figures::{gain, implied_copies, over_erases};
use super::metrics::{COPIES, ERASES, LIFETIME, Metric, Outcome};
use super::schemes::{self, CAPI, READINGS, Reading, Scheme};
use super::{CutPoints, DATA_SETS, Data, Environment, Group, Plan};
use crate::{Figure, PaperError, Row, Scale, View};

const UNIFORM_SHARES: [f64; 6] = [0.0, 0.02, 0.05, 0.1, 0.15, 0.2];

const IMPLIED: &str = "copies per erase, implied";

/// Endurance in figure skew: a tenth of the paper's, to limit run time.
const SKEW_ENDURANCE_PE: u32 = 100;

fn five() -> impl Iterator<Item = Scheme> {
    let five = ["GA", "CB", "CAT", "FeGC", CAPI];
    schemes::PAPER.iter().filter(move |scheme| five.contains(&scheme.label)).copied()
}

#[derive(Debug)]
pub(super) struct Asked {
    sets: Vec<Data>,
    readings: Vec<(&'static str, CutPoints)>,
    skew_sets: Vec<Data>,
    skews: Vec<(f64, CutPoints)>,
}

impl Asked {
    pub(super) fn of(plan: &mut Plan, environment: &Environment) -> Result<Self, PaperError> {
        // Smaller scales use fewer data sets.
        let all: Vec<Data> = DATA_SETS.map(Data::from).into();
        let sets = if environment.options.scale == Scale::Full { &all[..] } else { &all[1..2] };
        let mut readings = Vec::new();
        for Reading { name, differs } in READINGS {
            let with = |scheme: Scheme| {
                // Schemes that the reading does not change are the same runs as in figure 4.
                differs.iter().find(|other| other.label == scheme.label).copied().unwrap_or(scheme)
            };
            readings.push((*name, plan.want_all(environment, five().map(with), sets)?));
        }
        let endurance_pe = environment.endurance_pe.min(SKEW_ENDURANCE_PE);
        let short = Environment { endurance_pe, ..environment.clone() };
        let mut skews = Vec::new();
        let skew_sets = if environment.options.scale == Scale::Tiny { &all[1..2] } else { &all[..] };
        for uniform_share in UNIFORM_SHARES {
            let data: Vec<Data> = skew_sets.iter().map(|data| Data { uniform_share, ..*data }).collect();
            skews.push((uniform_share, plan.want_all(&short, five(), &data)?));
        }
        Ok(Self { sets: sets.to_vec(), readings, skew_sets: skew_sets.to_vec(), skews })
    }

    pub(super) fn figures(self, outcomes: &[Outcome]) -> Vec<Figure> {
        let names: Vec<&str> = self.sets.iter().map(|data| data.set.name).collect();
        let names = names.join(", ");
        let alone = if self.sets.len() == 1 { format!(" ({names} alone)") } else { String::new() };
        let mut rows = Vec::new();
        for (name, places) in self.readings {
            let group = Group::new(&self.sets, places, outcomes);
            for (metric, quantity, paper) in [
                (LIFETIME, "lifetime", [73.0, 39.0, 29.0, 24.0]),
                (COPIES, "copies per erase", [-18.0, -14.0, -11.0, -12.0]),
            ] {
                for (row, paper) in against_others(&group, &metric).into_iter().zip(paper) {
                    let (other, value) = row;
                    let at = [("quantity", quantity), ("reading", name), ("against", other), ("unit", "%")];
                    rows.push(Row::new(&at, value).with_paper(paper));
                }
            }
        }
        let readings = Figure::new(
            "readings",
            format!("CAPi's lead under other readings of the paper{alone}"),
            View::Bars { panel: &["quantity"], group: "reading", bar: "against" },
            rows,
        )
        .noted(format!("means of {names}"));
        vec![readings, skew(&self.skew_sets, self.skews, outcomes)]
    }
}

fn skew(sets: &[Data], skews: Vec<(f64, CutPoints)>, outcomes: &[Outcome]) -> Figure {
    let mut rows = Vec::new();
    for (share, places) in skews {
        let group = Group::new(sets, places, outcomes);
        for (metric, quantity) in [
            (LIFETIME, "CAPi's lifetime, % more"),
            (COPIES, "CAPi's copies per erase, % more"),
            (ERASES, "CAPi's erases per write, % more"),
        ] {
            for (other, value) in against_others(&group, &metric) {
                let at = [("quantity", quantity), ("policy", other), ("unit", "%")];
                rows.push(Row::new(&at, value).at("uniform_share", share));
            }
        }
        for (scheme, outcomes) in &group.schemes {
            let level = crate::figure::mean(outcomes.iter().map(|of| (COPIES.of)(of)));
            let at = [("quantity", "copies per erase"), ("policy", scheme.label), ("unit", "pages")];
            rows.push(Row::new(&at, level).at("uniform_share", share));
        }
        let [life, copies, erases] = [LIFETIME, COPIES, ERASES].map(|metric| against_others(&group, &metric));
        for ((other, life), (_, erases)) in life.into_iter().zip(&erases) {
            let at = [("quantity", "life gain over erase gain"), ("policy", other), ("unit", "times")];
            let ratio = life.zip(*erases).map(|(life, erases)| over_erases(life, erases));
            rows.push(Row::new(&at, ratio).at("uniform_share", share));
        }
        for ((other, copies), (_, erases)) in copies.into_iter().zip(erases) {
            let at = [("quantity", IMPLIED), ("policy", other), ("unit", "pages")];
            let level = copies.zip(erases).and_then(|(copies, erases)| implied_copies(copies, erases));
            // No row if the leads contradict each other, as on a tiny drive.
            let row = level.map(|level| Row::new(&at, Some(level)).at("uniform_share", share));
            rows.extend(row);
        }
    }
    Figure::new(
        "skew",
        "CAPi's lead if a part of the writes is uniform over all pages",
        View::Curves { panel: &["quantity"], of: "policy", over: "uniform_share" },
        rows,
    )
    .noted(format!(
        "means of {} data sets, at most {SKEW_ENDURANCE_PE} erases per block. The share of hot pages is the same at any skew; the \
         paper's averages imply 198, 193, 184 and 179 copies per erase for GA, CB, CAT and FeGC",
        sets.len()
    ))
}

fn against_others(group: &Group, metric: &Metric) -> Vec<(&'static str, Option<f64>)> {
    let others = group.schemes.iter().filter(|(scheme, _)| scheme.label != CAPI);
    let lead = |theirs: &[Outcome]| group.of(CAPI).and_then(|ours| gain(metric, ours, theirs));
    others.map(|(scheme, outcomes)| (scheme.label, lead(outcomes))).collect()
}
