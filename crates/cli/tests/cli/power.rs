use serde_json::Value as Json;

use crate::{Folder, assert_causes_add_up};

const DURABLE: [&str; 6] = [
    "drive.ftl.durable_map=true",
    "drive.nand.data=stamp",
    "drive.nand.blocks_per_plane=64",
    "workload.trim_fraction=0.1",
    "workload.flush_every=20",
    "run.check=true",
];

fn durable(folder: &Folder, more: &[&str]) -> crate::Ended {
    folder.tiny(&[&DURABLE, more].concat())
}

fn cuts(result: &Json) -> &Vec<Json> {
    result["power_cuts"].as_array().expect("power cuts")
}

#[test]
fn every_cut_is_recovered_verified_and_reported() {
    let folder = Folder::new();
    let result = durable(&folder, &["power.cut_every=50"]).ok().json();
    assert_causes_add_up(&result);
    assert!(cuts(&result).len() >= 5, "{}", cuts(&result).len());
    let (mut last, mut unflushed) = (0, 0);
    for cut in cuts(&result) {
        let count = |pointer: &str| cut.pointer(pointer).and_then(Json::as_u64).expect("a count");
        // An interrupted erase is not counted: it is repeated.
        assert!(count("/operation") + 1 >= last + 50);
        last = count("/operation");
        assert_eq!(count("/verified/units"), 160);
        assert_eq!(count("/verified/wrong"), 0);
        assert_eq!(count("/verified/newest") + count("/verified/older"), count("/verified/unflushed"));
        assert!(count("/recovery/time_ns") > 0 && count("/recovery/log_pages") > 0);
        unflushed += count("/verified/unflushed");
    }
    assert!(unflushed > 0, "something was always at stake");
    assert!(result["nand"]["read"]["by_cause"]["recovery"].as_u64() > Some(0));
    assert!(result["nand"]["program"]["by_cause"]["map"].as_u64() > Some(0));
}

#[test]
fn the_flag_cuts_where_it_says_and_a_person_is_told() {
    let folder = Folder::new();
    let mut args = vec!["run", "tiny.toml", "--cut", "77", "--cut", "300"];
    args.extend(DURABLE.iter().flat_map(|set| ["--set", set]));
    let told = folder.strobe(&args).ok().out;
    assert!(told.contains("2 power cuts: nothing flushed was lost"), "{told}");
    let told = folder.strobe(&[&args[..], &["--full"]].concat()).ok().out;
    assert!(told.contains("No flushed data was lost") && told.contains("2 power cuts"), "{told}");
    args.extend(["--quiet", "--json", "-"]);
    let result = folder.strobe(&args).ok().json();
    let operations: Vec<_> = cuts(&result).iter().map(|cut| cut["operation"].as_u64()).collect();
    assert_eq!(operations, [Some(77), Some(300)]);
}

#[test]
fn a_run_without_cuts_does_not_mention_them() {
    let folder = Folder::new();
    let result = durable(&folder, &[]).ok().json();
    assert!(result.get("power_cuts").is_none() && result.pointer("/config/power").is_none());
}

#[test]
fn the_same_cuts_give_the_same_bytes() {
    let folder = Folder::new();
    let mut args = vec!["run", "tiny.toml", "--reproducible", "--quiet", "--json", "-", "--cut", "200"];
    args.extend(DURABLE.iter().flat_map(|set| ["--set", set]));
    assert_eq!(folder.strobe(&args).ok().out, folder.strobe(&args).ok().out);
}

#[test]
fn flushes_come_as_often_as_asked_for() {
    let folder = Folder::new();
    let result = folder.tiny(&["workload.flush_every=10"]).ok().json();
    assert_eq!(result["host"]["write"]["commands"], 640);
    assert_eq!(result["host"]["flush"]["commands"], 64);
}

#[test]
fn cuts_that_cannot_be_survived_are_refused_with_the_cure() {
    let folder = Folder::new();
    for (sets, expected) in [
        (&["power.cut_at=[5]"][..], &["drive.ftl.durable_map", "true", "--cut"][..]),
        (
            &["power.cut_at=[5]", "drive.ftl.durable_map=true"],
            &["drive.nand.data", "\"none\"", "\"stamp\" or \"bytes\""],
        ),
        (
            &["power.cut_at=[5,4]", "drive.ftl.durable_map=true", "drive.nand.data=stamp"],
            &["power.cut_at", "[5, 4]", "ascending"],
        ),
        (&["power.cut_at=[0]"], &["power.cut_at", "from 1"]),
        (&["power.cut=[3]"], &["unknown key power.cut", "cut_at"]),
    ] {
        folder.tiny(sets).refused(expected);
    }
}

#[test]
fn a_drive_too_small_for_its_map_is_refused_with_the_arithmetic() {
    let folder = Folder::new();
    let sets = ["drive.ftl.durable_map=true", "drive.nand.blocks_per_plane=24"];
    folder.tiny(&sets).refused(&["over-provisioning is too small", "reserved for the map"]);
}
