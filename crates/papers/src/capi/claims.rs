use super::census::Census;
use super::figures::{gain, largest_change, span};
use super::metrics::{COPIES, ERASES, GC_TIME, LIFETIME, Metric};
use super::schemes::{CAPI, CAPI_BY_CB, CAPI_SWAP, CAPI_UNSORTED};
use super::{CLAIMS, DATA_SETS, Group, Results};
use crate::Claim;
use crate::figure::{mean, percent_more, reduced};
use crate::table::Values;

const OTHERS: [&str; 4] = ["GA", "CB", "CAT", "FeGC"];
/// First data set with wholly cold blocks according to the paper: 8.5:1.5.
const COLD_SET: usize = 4;
const FIVE: [&str; 5] = ["GA", "CB", "CAT", "FeGC", CAPI];
/// CAT with the free-block choice of FeGC and CAPi: the least worn block.
const CAT_LEAST_ERASED: &str = "CAT, least-erased";

pub(super) fn all(results: &Results) -> Vec<Claim> {
    let mut values = Values::default();
    let off =
        |(set, census): (&super::DataSet, &Census)| Some(100.0 * (census.hot_share - set.hot_share).abs());
    values.add("hot-share", reduced(DATA_SETS.iter().zip(&results.censuses).map(off), f64::max));
    let cold = |set: usize| Some(results.censuses.get(set)?.cold_blocks);
    let (before, after) = (cold(COLD_SET - 1), cold(COLD_SET).filter(|&share| share > 0.0));
    values.add("cold-blocks", before.zip(after).map(|(before, after)| before / after));
    for other in OTHERS {
        against(&mut values, &results.paper, other);
    }
    orders(&mut values, &results.paper);
    deaths(&mut values, results);
    causes(&mut values, results);
    values.judged(CLAIMS, "")
}

fn against(values: &mut Values, paper: &Group, other: &str) {
    let both = || paper.of(CAPI).zip(paper.of(other));
    let lead = |metric: &Metric| both().and_then(|(ours, theirs)| gain(metric, ours, theirs));
    values.add(&format!("lifetime {other}"), lead(&LIFETIME));
    values.add(&format!("copies {other}"), lead(&COPIES));
    values.add(&format!("erases {other}"), lead(&ERASES));
    values.add(&format!("time {other}"), lead(&GC_TIME));
}

fn orders(values: &mut Values, paper: &Group) {
    let greedy = |set: usize| paper.of("GA").and_then(|of| (LIFETIME.of)(of.get(set)?));
    let steps = (1..DATA_SETS.len()).map(|set| Some(percent_more(greedy(set)?, greedy(set - 1)?)));
    let five = |set: usize| mean(FIVE.map(|label| (LIFETIME.of)(paper.of(label)?.get(set)?)));
    let colder = (COLD_SET..DATA_SETS.len()).map(|set| Some(percent_more(five(set)?, five(set - 1)?)));
    values.add("greedy-steps", reduced(steps, f64::max));
    values.add("mean-steps", reduced(colder, f64::max));
    let life = |label: &str, set: usize| (LIFETIME.of)(paper.of(label)?.get(set)?);
    let earlier = FIVE.into_iter().skip(1).flat_map(|label| {
        (1..COLD_SET).map(move |set| Some(percent_more(life(label, set)?, life(label, set - 1)?)))
    });
    values.add("earlier-steps", reduced(earlier, f64::min));
    let erases = paper.of("FeGC").zip(paper.of("CAT"));
    values.add("erases-fegc-cat", erases.and_then(|(fegc, cat)| gain(&ERASES, fegc, cat)));
    values.add("copies-coldest", largest_change(paper, &FIVE, &COPIES, 0));
}

fn deaths(values: &mut Values, results: &Results) {
    // Figure 5: with FeGC and CAPi all blocks fail at almost the same time. The text attributes this to
    // opening the least worn block.
    let slow = reduced(["GA", "CB", "CAT"].map(|label| span(&results.curves, label)), f64::min);
    let over = |label: &str| span(&results.curves, label).zip(slow).map(|(fast, slow)| fast / slow);
    values.add("deaths", reduced(["FeGC", CAPI].map(over), f64::max));
    values.add("deaths-cause", over(CAT_LEAST_ERASED));
}

fn causes(values: &mut Values, results: &Results) {
    // The text names sorting and the score (section III), and static wear levelling (section IV.2).
    let part = |without: &str| {
        let parts = &results.parts;
        gain(&COPIES, parts.of(CAPI)?, parts.of(without)?)
    };
    values.add("copies-unsorted", part(CAPI_UNSORTED));
    values.add("copies-by-cb", part(CAPI_BY_CB));
    let coldest = |label: &str| (LIFETIME.of)(results.beyond.of(label)?.last()?);
    let levelled = coldest(CAPI_SWAP).zip(coldest(CAPI)).map(|(with, without)| percent_more(with, without));
    values.add("lifetime-levelled", levelled);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capi::figures::implied_copies;
    use crate::capi::schemes::{BEYOND, PAPER, PARTS, Scheme};
    use crate::table::tests::{assert_all_computed, paper};

    #[test]
    fn every_claim_is_computed() {
        assert_all_computed(CLAIMS, &all(&Results::default()));
    }

    #[test]
    fn the_paper_names_no_other_schemes() {
        let known = |label: &&str| PAPER.iter().any(|scheme| scheme.label == *label);
        assert!(FIVE.iter().all(known));
    }

    #[test]
    fn the_level_of_copies_follows_from_the_papers_averages() {
        for (other, level) in [("ga", 198.0), ("cb", 193.0), ("cat", 184.0), ("fegc", 179.0)] {
            let [copies, erases] =
                ["copies", "erases"].map(|name| paper(CLAIMS, &format!("{name}-{other}")).expect("a number"));
            let implied = implied_copies(copies, erases).expect("a level");
            // The paper's leads are rounded.
            assert!((implied - level).abs() < 1.0, "{level}: {implied}");
            let per_write = |c: f64| 1.0 / (256.0 - c);
            let change = percent_more(per_write(implied * (1.0 + copies / 100.0)), per_write(implied));
            assert!((change - erases).abs() < 1e-9, "{level}: {change}");
        }
        assert_eq!(implied_copies(-1.0, 5.0), None, "fewer copies, more erases");
    }

    #[test]
    fn causes_name_schemes_that_are_run() {
        let has = |schemes: &[Scheme], label: &str| schemes.iter().any(|scheme| scheme.label == label);
        assert!([CAPI, CAPI_UNSORTED, CAPI_BY_CB].iter().all(|label| has(PARTS, label)));
        assert!([CAPI, CAPI_SWAP].iter().all(|label| has(BEYOND, label)));
        assert!(has(PAPER, CAT_LEAST_ERASED));
    }
}
