use crate::{Folder, TINY};

const BYTES: &str = "drive.controller.nvram.bytes=\"128k\"";

#[test]
fn a_run_with_a_cache_reports_it_and_one_without_does_not() {
    let folder = Folder::new();
    let without = folder.tiny(&[]).ok().json();
    assert!(without.get("nvram").is_none() && without.pointer("/config/drive/controller/nvram").is_none());
    let none = folder.tiny(&["drive.controller.nvram.bytes=0"]).ok().json();
    assert_eq!(none["config_hash"], without["config_hash"]);

    let with = folder.tiny(&[BYTES, "run.check=true"]).ok().json();
    let count = |key: &str| with["nvram"][key].as_u64().unwrap_or_else(|| panic!("{key} is missing"));
    assert_eq!(with["nvram"]["write_units"], with["host"]["pages_written"]);
    // 32 of 160 units, at random.
    let hit_ratio = count("hits") as f64 / count("write_units") as f64;
    assert!((0.1..0.3).contains(&hit_ratio), "{hit_ratio}");
    assert_eq!(count("hits") + count("evicted_units"), count("write_units"), "it is full all the time");
    assert_eq!(with["nand"]["program"]["by_cause"]["cache"], with["nvram"]["evicted_units"]);
    assert_eq!(with["config"]["drive"]["controller"]["nvram"]["bytes"], 131_072);
}

#[test]
fn ranges_can_be_listed_in_a_file_and_on_the_command_line() {
    let folder = Folder::new();
    let table = "[[drive.controller.nvram.ranges]]\nfirst_sector = 0\nsectors = 256\n";
    let policy = "[drive.controller.nvram]\nbytes = \"128k\"\npolicy = \"lba-range\"\n";
    folder.write("ranges.toml", format!("{TINY}{policy}{table}"));
    let file = folder.strobe(&["run", "ranges.toml", "--quiet", "--json", "-"]).ok().json();
    let set = "drive.controller.nvram.ranges=[{ first_sector = 0, sectors = 256 }]";
    let sets = folder.tiny(&[BYTES, "drive.controller.nvram.policy=lba-range", set]).ok().json();
    assert_eq!(file["config_hash"], sets["config_hash"]);
    // The cache has a slot for each unit of the range: no unit is evicted.
    assert_eq!(file["nvram"]["evicted_units"], 0);
    assert_eq!(file["nvram"]["hits"], file["nvram"]["write_units"]);
}

#[test]
fn a_cache_that_makes_no_sense_is_refused_with_key_and_cure() {
    let folder = Folder::new();
    let nvram = |key: &str| format!("drive.controller.nvram.{key}");
    let lba_range = nvram("policy=lba-range");
    for (sets, expected) in [
        (
            vec![BYTES.to_owned(), lba_range.clone()],
            &["drive.controller.nvram", "ranges is empty", "first_sector", "hint"][..],
        ),
        (
            vec![BYTES.to_owned(), lba_range.clone(), nvram("ranges=[{ first_sector = 1279, sectors = 2 }]")],
            &["drive.controller.nvram: ranges", "2 sectors from sector 1279", "1280"],
        ),
        (vec![BYTES.to_owned(), nvram("policy=fat")], &["drive.nand.data = \"bytes\"", "lba-range"]),
        (
            vec![nvram("ranges=[{ first_sector = 1 }]")],
            &["drive.controller.nvram.ranges[0].sectors is missing"],
        ),
        (
            vec![nvram("ranges=[{ first_sector = 0, sectors = 0 }]")],
            &["drive.controller.nvram.ranges[0].sectors = 0", "from 1"],
        ),
        (
            vec![nvram("ranges=[{ first_sector = 0, sectors = 1, last = 2 }]")],
            &["unknown key drive.controller.nvram.ranges[0].last", "first_sector"],
        ),
        (vec![nvram("ranges=[3]")], &["drive.controller.nvram.ranges[0] = 3", "a table"]),
        (vec![nvram("ranges=3")], &["drive.controller.nvram.ranges=3", "a list in brackets"]),
        (vec![nvram("policy=fifo")], &["drive.controller.nvram.policy", "lru, lba-range, fat, hint"]),
        (vec![nvram("bytes=-1")], &["drive.controller.nvram.bytes=-1", "from 0 to"]),
        (vec![nvram("size=1")], &["drive.controller.nvram.size", "bytes"]),
    ] {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        folder.tiny(&sets).refused(expected);
    }
}
