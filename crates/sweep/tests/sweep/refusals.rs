use crate::*;

#[test]
fn nonsense_is_refused_with_the_key_and_the_nearest_name() {
    let grid = |text: &str| refusal(&format!("[sweep.grid]\n{text}"));
    for (found, wanted) in [
        (refusal(""), "[sweep.grid]"),
        (refusal("[sweep]\nseed = 3"), "did you mean sweep.seeds?"),
        (refusal("[sweep]\nseeds = 0"), "1 to 10000"),
        (refusal("[sweep]\nseeds = [1, 1]"), "different"),
        (refusal("[sweep]\nseeds = 2\nuntil = 0.01"), "seeds_max"),
        (refusal("[sweep]\nseeds_max = 9"), "until"),
        (refusal("[sweep]\nseeds = 7\nseeds_max = 9\nuntil = \"1%\""), "sweep.seeds is 7"),
        (refusal("[sweep]\nseeds_max = 7\nuntil = \"1%\""), "from seeds (8)"),
        (refusal("[sweep]\nseeds = 8\nseeds_max = 9\nuntil = \"150%\""), "percentage"),
        (refusal("[sweep]\nmeasure = 3"), "sweep.measure"),
        (refusal("[sweep]\nconfidence = 1"), "0.5 to 0.9999"),
        (refusal("[sweep]\npairs = \"some\""), "\"first\" or \"all\""),
        (refusal("[sweep]\npoints = [3]"), "list of tables"),
        (
            refusal(
                "[sweep]\ncompare = \"drive.ftl.gc.victm\"\n[sweep.grid]\n\"drive.ftl.gc.victim\"=[\"fifo\"]",
            ),
            "did you mean drive.ftl.gc.victim?",
        ),
        (grid("\"drive.ftl.over_provisoning\" = [0.1]"), "did you mean drive.ftl.over_provisioning?"),
        (grid("\"drive.ftl.gc.victim\" = [\"gredy\"]"), "did you mean greedy?"),
        (grid("\"drive.ftl.over_provisioning\" = 0.1"), "list of values"),
        (grid("\"drive.ftl.over_provisioning\" = []"), "list of values"),
        (grid("\"drive.ftl.over_provisioning\" = [0.1, 0.1]"), "twice"),
        (grid("seed = [1, 2]"), "sweep.seeds"),
        (grid("drive.ftl.over_provisioning = [0.1]\n\"drive.ftl.over_provisioning\" = [0.2]"), "twice"),
    ] {
        assert!(found.contains(wanted), "{found:?} does not say {wanted:?}");
    }
    let many: Vec<String> = (1..=1000).map(|n| n.to_string()).collect();
    let many = many.join(", ");
    let found = grid(&format!(
        "\"drive.nand.read_ns\" = [{many}]\n\"drive.nand.program_ns\" = [{many}]\n\"drive.nand.erase_ns\" = [{many}]"
    ));
    assert!(found.contains("1000000000 points"), "{found}");
    assert!(
        refusal("[sweep]\nmeasure = \"wafs\"\n[sweep.grid]\n\"run.check\" = [true]")
            .contains("did you mean waf?")
    );
}

#[test]
fn slips_in_measures_and_values_are_refused_before_the_first_run() {
    let measure = |name: &str, base: &str| {
        let sweep =
            format!("{base}\n[sweep]\nmeasure = \"{name}\"\n[sweep.grid]\n\"run.check\" = [false, true]");
        file(&sweep).and_then(Plan::new).map(drop).map_err(|error| error.to_string())
    };
    for name in
        ["waf", "gc.copies_per_erase", "wear.erase_stddev", "nand.program.by_cause.gc", "write.total_ios"]
    {
        assert_eq!(measure(name, ""), Ok(()), "{name}");
    }
    let refused = |name: &str, wanted: &str| {
        let error = measure(name, "").expect_err(name);
        assert!(error.starts_with("sweep.measure: ") && error.contains(wanted), "{error}");
    };
    refused("write.p99_ns", "needs times, and run.timing = false");
    refused("dies.busy", "run.timing = false");
    refused("gc.copies_per_eras", "did you mean gc.copies_per_erase?");
    // All requests are writes.
    refused("read.total_ios", "no result of this sweep");
    assert_eq!(measure("read.total_ios", "[workload]\nwrite_fraction = 0.5"), Ok(()));

    let grid = "[sweep.grid]\n\"drive.ftl.over_provisioning\" = [0.15, 0.3]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifoo\"]";
    let error = refusal(grid);
    for wanted in ["drive.ftl.gc.victim = \"fifoo\"", "did you mean fifo?"] {
        assert!(error.contains(wanted) && !error.contains("--set"), "{error}");
    }
    // An invalid combination is a row with its error; the others run.
    let grid = "[sweep.grid]\n\"drive.nand.page_bytes\" = [2048, 4096]\n\"drive.ftl.mapping_unit_bytes\" = [2048, 4096]";
    let plan = self::plan(&grid.replace("[sweep.grid]", "[sweep]\n[sweep.grid]"));
    let refused: Vec<bool> = plan.configurations.iter().map(|found| found.refused.is_some()).collect();
    assert_eq!(refused, [false, true, false, false]);
}
