//! Pairs of features: each one is run with the whole-state checker, or refused with a reason. `docs/composition.md` lists
//! the refused ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use strobe_lab::{Experiment, runner};

const BASE: &str = "
[drive.nand]
channels = 2
dies_per_channel = 2
blocks_per_plane = 64
pages_per_block = 18
read_ns = 50000
program_ns = 500000
erase_ns = 3000000
[drive.ftl]
logical_pages = 1200
[workload]
kind = 'uniform'
write_fraction = 0.8
queue_depth = 4
[run]
precondition = '1x'
measure = 3000
check = true
";

/// An option of one kind. Options of a kind exclude each other.
struct Choice {
    kind: &'static str,
    name: &'static str,
    sets: &'static [&'static str],
}

const fn choice(kind: &'static str, name: &'static str, sets: &'static [&'static str]) -> Choice {
    Choice { kind, name, sets }
}

const STOP: &str = "drive.ftl.gc.mode='stop-the-world'";
const HANDLES: &str = "drive.ftl.placement.scheme='handles'";

const CHOICES: &[Choice] = &[
    choice("mapping", "DFTL", &["drive.ftl.mapping='dftl'"]),
    choice(
        "mapping",
        "replacement blocks",
        &["drive.ftl.mapping='replacement-block'", "drive.nand.any_page_order=true"],
    ),
    choice("mapping", "log blocks", &["drive.ftl.mapping='log-block'"]),
    choice("mapping", "FAST", &["drive.ftl.mapping='fast'"]),
    choice("placement", "hot-cold", &["drive.ftl.placement.scheme='hot-cold'"]),
    choice("placement", "SepBIT", &["drive.ftl.placement.scheme='sepbit'"]),
    choice("placement", "DAC", &["drive.ftl.placement.scheme='dac'"]),
    choice("placement", "MiDAS", &["drive.ftl.placement.scheme='midas'"]),
    choice("placement", "sorted copies", &["drive.ftl.placement.scheme='sorted'"]),
    choice("placement", "2R", &["drive.ftl.placement.scheme='2r'", STOP]),
    choice("placement", "handles", &[HANDLES]),
    choice("placement", "reclaim groups", &[HANDLES, "drive.ftl.placement.groups=2"]),
    choice("victim", "cost-benefit", &["drive.ftl.gc.victim='cost-benefit'"]),
    choice("victim", "FIFO", &["drive.ftl.gc.victim='fifo'"]),
    choice("collection", "stop-the-world collection", &[STOP]),
    choice("time", "runs without time", &["run.timing=false"]),
    choice("dies", "allocation by address", &["drive.ftl.die_allocation='by-address'"]),
    choice("stream", "copies in the host's blocks", &["drive.ftl.gc.stream='host'"]),
    choice("garbage", "garbage share", &["drive.ftl.gc.garbage_share=0.2", STOP]),
    choice("buffer", "write buffer", &["drive.controller.write_buffer_bytes=262144"]),
    choice("nvram", "non-volatile cache", &["drive.controller.nvram.bytes=65536"]),
    choice("slc", "SLC cache", &["drive.ftl.slc_cache.dynamic_blocks=8"]),
    choice("copy", "logical copy", &["drive.ftl.copy_mode='logical'"]),
    choice("durable", "journal", &["drive.ftl.durable_map=true"]),
    choice("durable", "map pages", &["drive.ftl.durable_map='pages'"]),
    choice(
        "wear",
        "wear levelling",
        &["drive.ftl.wear_leveling.kind='swap'", "drive.ftl.wear_leveling.threshold=2"],
    ),
    choice("refresh", "refresh", &["drive.ftl.refresh.reads=2000"]),
    choice("faults", "failing programs", &["drive.nand.program_fail_rate=0.00002"]),
    choice("suspend", "suspend", &["drive.nand.suspend.most=4"]),
    choice("power", "power cuts", &["power.cut_every=2000", "drive.nand.data='stamp'"]),
];

/// `None` if the choices work together, else the reason of the refusal.
fn refusal(choices: &[&Choice]) -> Option<String> {
    let mut sets: Vec<String> =
        choices.iter().flat_map(|choice| choice.sets).map(|set| set.replace('\'', "\"")).collect();
    sets.sort();
    sets.dedup();
    let has = |kind| choices.iter().any(|choice| choice.kind == kind);
    // Power cuts need a durable map.
    if has("power") && !has("durable") {
        sets.push("drive.ftl.durable_map=true".to_owned());
    }
    let table = BASE.parse().expect("TOML");
    let ran = match Experiment::from_table(table, &sets, Path::new("")) {
        Ok(experiment) => runner::run(&experiment, &mut ()).map(|_| ()).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    ran.err().map(|reason| {
        // Without the key that the message blames and the cure, pairs with one reason are one row.
        let reason = reason.split_once("has no effect unless ").map_or(reason.as_str(), |(_, reason)| reason);
        let mut reason = reason.trim_end_matches("; leave it out, or set that too").replace('|', "\\|");
        for name in ["fast", "log-block", "replacement-block"] {
            let mapping = format!("drive.ftl.mapping = \"{name}\" does");
            reason = reason.replace(&mapping, "a block-mapped drive.ftl.mapping does");
        }
        reason
    })
}

/// Pairs as products: choices refused with the same others share a line.
fn products(pairs: &[(&str, &str)]) -> String {
    let mut firsts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for &(a, b) in pairs {
        firsts.entry(b).or_default().push(a);
    }
    let mut seconds: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for (b, firsts) in firsts {
        seconds.entry(firsts).or_default().push(b);
    }
    let lines: Vec<String> =
        seconds.iter().map(|(a, b)| format!("{} × {}", a.join(", "), b.join(", "))).collect();
    lines.join("; ")
}

fn page() -> String {
    let mut reasons: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    let (mut works, mut refused) = (0, 0);
    for choice in CHOICES {
        assert_eq!(refusal(&[choice]), None, "{} alone", choice.name);
    }
    for (at, a) in CHOICES.iter().enumerate() {
        for b in CHOICES[at + 1..].iter().filter(|b| b.kind != a.kind) {
            match refusal(&[a, b]) {
                None => works += 1,
                Some(reason) => {
                    reasons.entry(reason).or_default().push((a.name, b.name));
                    refused += 1;
                }
            }
        }
    }
    let mut page = format!(
        "# What works together\n\n\
         Of {} pairs of features {works} work and {refused} are refused. A test runs each pair that works, with times\n\
         and the whole-state checker, and writes this page. Generators, traces, guests, servers and Python use the same\n\
         drive.\n\n\
         - `A, B × C` stands for A with C and B with C.\n\
         - 2R and the garbage share include stop-the-world collection.\n\
         - Power cuts include a journal.\n\n\
         | Refused | Needed |\n|---|---|\n",
        works + refused
    );
    for (reason, pairs) in &reasons {
        writeln!(page, "| {} | {reason} |", products(pairs)).expect("text");
    }
    page
}

#[test]
fn pairs_work_or_are_refused_as_the_page_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/composition.md");
    let page = page();
    if std::env::var_os("STROBE_BLESS").is_some() {
        std::fs::write(&path, &page).expect("written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/composition.md is not what the code says: STROBE_BLESS=1 writes it\n{page}"
    );
}
