//! The result contract: every field of `strobe schema result` with its type, and consistent sums.

use serde_json::Value as Json;

use crate::schema::violations;
use crate::{Folder, assert_causes_add_up};

/// Types: count, number, text or table; `?` allows null.
const FIELDS: &[(&str, &str)] = &[
    ("schema_version", "count"),
    ("strobe_version", "text"),
    ("seed", "count"),
    ("config_hash", "text"),
    ("config", "table"),
    ("config/drive/nand/channels", "count"),
    ("host/read/commands", "count"),
    ("host/read/bytes", "count"),
    ("host/write/commands", "count"),
    ("host/write/bytes", "count"),
    ("host/trim/commands", "count"),
    ("host/trim/bytes", "count"),
    ("host/copy/commands", "count"),
    ("host/copy/bytes", "count"),
    ("host/flush/commands", "count"),
    ("host/flush/bytes", "count"),
    ("host/write_zeroes/commands", "count"),
    ("host/write_zeroes/bytes", "count"),
    ("nand/program/total", "count"),
    ("nand/read/total", "count"),
    ("nand/erase/total", "count"),
    ("waf", "number?"),
    ("ended_by", "text"),
    ("gc/runs", "count"),
    ("gc/copies_per_erase", "number?"),
    ("gc/time_ns", "count"),
    ("gc/wear_blocks", "count"),
    ("gc/wear_units_moved", "count"),
    ("wear/erase_min", "count"),
    ("wear/erase_mean", "number"),
    ("wear/erase_max", "count"),
    ("wear/erase_stddev", "number"),
    ("wear/bad_blocks", "count"),
    ("wear/first_bad_block_host_writes", "count?"),
    ("wear/ideal_host_pages", "count?"),
    ("time/virtual_ns", "count"),
    ("time/wall_s", "number?"),
    ("time/cpu_s", "number?"),
    ("sim/host_pages_per_cpu_s", "number?"),
    ("smart/percent_used", "count"),
    ("smart/avail_spare", "count"),
    ("smart/data_units_read", "count"),
    ("smart/data_units_written", "count"),
    ("smart/host_read_commands", "count"),
    ("smart/host_write_commands", "count"),
    ("smart/media_errors", "count"),
];

const CAUSES: [&str; 11] =
    ["host", "gc", "merge", "map", "meta", "wear", "copy", "cache", "recovery", "pad", "p2l"];

#[track_caller]
fn assert_contract(result: &Json) {
    let check = |path: &str, kind: &str| {
        let value = result.pointer(&format!("/{path}")).unwrap_or_else(|| panic!("{path} is missing"));
        let fits = match kind.trim_end_matches('?') {
            _ if kind.ends_with('?') && value.is_null() => true,
            "count" => value.is_u64(),
            "number" => value.is_number(),
            "text" => value.is_string(),
            _ => value.is_object(),
        };
        assert!(fits, "{path} is {value}, no {kind}");
    };
    FIELDS.iter().for_each(|(path, kind)| check(path, kind));
    for op in ["program", "read", "erase"] {
        CAUSES.iter().for_each(|cause| check(&format!("nand/{op}/by_cause/{cause}"), "count"));
    }
    for op in ["read", "write", "trim"] {
        for (field, kind) in [
            ("io_bytes", "count"),
            ("bw_bytes", "count?"),
            ("iops", "number?"),
            ("total_ios", "count"),
            ("clat_ns/min", "count"),
            ("clat_ns/max", "count"),
            ("clat_ns/mean", "number"),
            ("clat_ns/stddev", "number"),
            ("clat_ns/percentile", "table"),
        ] {
            check(&format!("jobs/0/{op}/{field}"), kind);
        }
        let n = result["jobs"][0][op]["clat_ns"]["N"].as_u64().expect("a count");
        for (percentile, enough) in [("50.000000", 2), ("99.000000", 100), ("99.990000", 10_000)] {
            let value = &result["jobs"][0][op]["clat_ns"]["percentile"][percentile];
            assert_eq!(value.is_u64(), n >= enough, "{op} {percentile} of {n}: {value}");
        }
        let has_time = result["time"]["virtual_ns"].as_u64() > Some(0);
        assert_eq!(result["jobs"][0][op]["iops"].is_number(), has_time);
        assert_eq!(result["jobs"][0][op]["io_bytes"], result["host"][op]["bytes"]);
        assert_eq!(result["jobs"][0][op]["total_ios"], result["host"][op]["commands"]);
    }
    assert_causes_add_up(result);
}

const RUNS: [&[&str]; 10] = [
    &[],
    &["run.timing=false"],
    &["workload.write_fraction=0"],
    &["workload.write_fraction=0", "run.prefill=false", "run.warmup=0"],
    &["workload.trim_fraction=0.3", "workload.write_fraction=0.5", "workload.queue_depth=4"],
    &["run.measure=0", "run.warmup=0"],
    &["drive.controller.write_buffer_bytes=\"64k\"", "workload.block_bytes=1536"],
    &["run.until_end_of_life=true", "drive.nand.endurance_pe=10"],
    &["run.until_bad_blocks=2", "drive.nand.endurance_pe=10", "run.check=true"],
    &["drive.nand.data=bytes", "drive.nand.page_bytes=8192", "drive.ftl.mapping_unit_bytes=2048"],
];

#[test]
fn every_promised_field_is_there_with_its_type() {
    let folder = Folder::new();
    for sets in RUNS {
        assert_contract(&folder.tiny(sets).ok().json());
    }
}

#[test]
fn results_are_what_the_schema_says() {
    let folder = Folder::new();
    let schema = folder.strobe(&["schema", "result"]).ok().json();
    for sets in RUNS {
        let result = folder.tiny(sets).ok().json();
        assert_eq!(violations(&result, &schema), Vec::<String>::new(), "{sets:?}");
    }
    let partial = folder.tiny(&["drive.nand.endurance_pe=2", "run.measure=\"100x\""]).json();
    assert_eq!(violations(&partial, &schema), Vec::<String>::new());
    folder.write("t.csv", "1,h,0,Write,0,4096,1\n2,h,0,Read,0,4096,1\n");
    let replay = folder.replay("t.csv", "msr", &[]).ok().json();
    assert_eq!(violations(&replay, &schema), Vec::<String>::new());
    assert_contract(&replay);
}

#[test]
fn a_count_of_pages_is_measured_exactly() {
    let folder = Folder::new();
    let commands = |sets: &[&str]| folder.tiny(sets).ok().json()["host"]["write"]["commands"].clone();
    assert_eq!(commands(&["run.measure=10"]), 10);
    assert_eq!(commands(&["run.measure=0"]), 0);
    assert_eq!(commands(&["run.measure=\"4x\""]), 640);
    assert_eq!(commands(&["run.measure=10", "workload.block_bytes=\"8k\""]), 5);
    assert_eq!(commands(&["run.measure=10", "workload.block_bytes=512"]), 10);
}

#[test]
fn write_amplification_is_programs_per_host_page() {
    let result = Folder::new().tiny(&[]).ok().json();
    let of = |path: &str| result.pointer(path).and_then(Json::as_f64).expect("a number");
    let expected = of("/nand/program/total") / of("/host/pages_written");
    assert_eq!(of("/waf"), expected);
    assert_eq!(of("/host/pages_written"), 640.0);
    assert!(expected > 1.2 && expected < 3.0, "{expected}");
}

#[test]
fn a_workload_that_only_reads_has_no_write_amplification() {
    let result = Folder::new().tiny(&["workload.write_fraction=0"]).ok().json();
    assert_eq!(result["waf"], Json::Null);
    assert_eq!(result["host"]["read"]["commands"], 640);
    assert_eq!(result["nand"]["read"]["by_cause"]["host"], 640);
}
