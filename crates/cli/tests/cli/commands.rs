//! Configured command limits, and the cost of trims.

use serde_json::Value as Json;

use crate::Folder;

const LIMITS: [(&str, u64); 6] = [
    ("trim_ranges", 256),
    ("trim_range_sectors", u32::MAX as u64),
    ("trim_sectors", i64::MAX as u64),
    ("copy_ranges", 256),
    ("copy_range_sectors", u32::MAX as u64),
    ("copy_sectors", u32::MAX as u64),
];

const COSTS: [&str; 6] = ["command_ns", "range_ns", "partial_ns", "jump_ns", "adjacent_ns", "mib_ns"];

#[test]
fn limits_are_taken_up_to_their_own_limits() {
    let folder = Folder::new();
    for (key, most) in LIMITS {
        let key = format!("drive.controller.limits.{key}");
        for value in [0, 1, most] {
            folder.strobe(&["check", "tiny.toml", "--set", &format!("{key}={value}")]).ok();
        }
        folder.tiny(&[&format!("{key}=-1")]).refused(&[&key, "-1"]);
        if let Ok(more) = i64::try_from(most + 1) {
            folder.tiny(&[&format!("{key}={more}")]).refused(&[&key, &more.to_string()]);
        }
    }
    folder.tiny(&["drive.controller.limits.trim_range=3"]).refused(&["did you mean", "trim_range"]);
}

#[test]
fn limits_and_costs_are_part_of_the_result_and_default_to_none() {
    let controller = |json: &Json| json["config"]["drive"]["controller"].clone();
    let plain = controller(&Folder::new().tiny(&[]).ok().json());
    for (key, _) in LIMITS {
        assert_eq!(plain["limits"][key], 0, "{key}");
    }
    for key in COSTS {
        assert_eq!(plain["trim"][key], 0, "{key}");
    }
    let sets = ["drive.controller.limits.trim_ranges=64", "drive.controller.trim.jump_ns=7"];
    let set = controller(&Folder::new().tiny(&sets).ok().json());
    assert_eq!((&set["limits"]["trim_ranges"], &set["trim"]["jump_ns"]), (&64.into(), &7.into()));
}

/// Four trims of 4 KiB, far apart in time. The second directly follows the first; the last follows the third,
/// a sector short at both ends.
const TRIMS: &str = "\
fio version 3 iolog
0 disk add
0 disk open
1000000 disk trim 0 4096
2000000 disk trim 4096 4096
3000000 disk trim 40960 4096
4000000 disk trim 45568 3072
";

#[test]
fn trims_cost_what_is_configured() {
    let folder = Folder::new();
    folder.write("trims.iolog", TRIMS);
    let all = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| format!("drive.controller.{set}")).collect();
        let more: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let trim = folder.replay("trims.iolog", "fio", &more).ok().json()["jobs"][0]["trim"].clone();
        assert_eq!(trim["total_ios"], 4);
        4.0 * trim["clat_ns"]["mean"].as_f64().expect("a number")
    };
    assert_eq!(all(&[]), 0.0);
    assert_eq!(all(&["command_ns=300", "range_ns=5"]), 4.0 * 305.0);
    assert_eq!(all(&["command_ns=300", "trim.command_ns=1000", "trim.range_ns=10"]), 4.0 * 1310.0);
    assert_eq!(all(&["trim.adjacent_ns=100"]), 100.0);
    assert_eq!(all(&["trim.jump_ns=100"]), 300.0);
    assert_eq!(all(&["trim.partial_ns=100"]), 100.0, "two ends, but of one unit");
    // 4 KiB are 1/256 of a MiB.
    assert_eq!(all(&["trim.mib_ns=25600"]), 3.0 * 100.0 + 75.0);
}

#[test]
fn drives_with_ata_take_as_many_ranges_as_a_block_of_it_holds() {
    let folder = Folder::new();
    for preset in ["jasmine-4g", "intel-320-like", "samsung-840-like"] {
        let shown = folder.strobe(&["show", "preset", preset]).ok().out;
        assert!(shown.contains("trim_ranges = 64\n"), "{shown}");
        let set = format!("drive.preset={preset}");
        folder.write("empty.toml", "[workload]\nkind = \"uniform\"\n");
        let checked = folder.strobe(&["check", "empty.toml", "--set", &set]).ok().out;
        assert!(checked.contains("trim_ranges = 64"), "{checked}");
    }
}
