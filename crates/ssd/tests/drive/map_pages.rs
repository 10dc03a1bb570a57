//! `drive.ftl.durable_map = "pages"` equals the demand-paged map with all entries in memory.

use strobe_ssd::{BuildError, Command, CopyMode, DataMode, DriveConfig, DurableMap, Hint, Range, build};
use strobe_types::{Lba, Prng};

use crate::setup::{T0, UNIT, config, shaped};

/// Map pages have 1024 entries.
fn with_pages(mapping: &str, durable_map: DurableMap) -> DriveConfig {
    let mut config = shaped(2, 1, 1);
    (config.nand.data, config.nand.blocks_per_plane) = (DataMode::Stamp, 60);
    config.ftl.logical_pages = Some(300);
    (config.ftl.copy_mode, config.ftl.virtual_map_entries) = (CopyMode::Logical, 40);
    (config.ftl.mapping, config.ftl.durable_map) = (mapping.to_owned(), durable_map);
    config.ftl.translation.cached_entries = 300;
    config
}

#[test]
fn it_is_demand_paging_with_all_entries_cached() {
    for timing in [false, true] {
        for seed in 0..4 {
            let [pages, paged] =
                [("page", DurableMap::Pages), ("dftl", DurableMap::Journal)].map(|(mapping, form)| {
                    let mut drive = build(&with_pages(mapping, form), timing, 1).expect("builds");
                    drive.watch();
                    let mut rng = Prng::new(seed);
                    // Unused entries are not cached; here they are not on flash yet, so loading them costs no
                    // operation.
                    let all = Range::new(Lba::new(0), 300 * UNIT);
                    let mut now = drive.execute(T0, &Command::Read { range: all }).expect("reads");
                    let begin = drive.stats();
                    for _ in 0..1500 {
                        let count = 1 + rng.below(6);
                        let range =
                            Range::new(Lba::new(u64::from(rng.below(300 - count) * UNIT)), count * UNIT);
                        let other =
                            Range::new(Lba::new(u64::from(rng.below(300 - count) * UNIT)), count * UNIT);
                        let command = match rng.below(12) {
                            0 => Command::Flush,
                            1 => Command::Deallocate(&[range]),
                            2 => Command::Copy { destination: other.lba, sources: &[range] },
                            3 => Command::Read { range },
                            _ => Command::Write { range, fua: false, tag: Hint::None.into() },
                        };
                        // Copies may overlap themselves and are then rejected.
                        now = drive.execute(now, &command).unwrap_or(now);
                    }
                    let verdict = drive.freeze().restart(now).expect("recovers").0.verify().expect("watched");
                    assert_eq!(verdict.wrong, []);
                    (drive.stats().since(&begin), now, verdict)
                });
            assert!(pages.0.translation.is_some_and(|stats| stats.tp_programs > 100 && stats.tp_reads == 0));
            assert_eq!(pages, paged);
        }
    }
}

#[test]
fn other_schemes_and_an_slc_cache_are_refused_with_the_cure() {
    for mapping in ["dftl", "log-block", "replacement-block", "fast"] {
        let mut config = with_pages(mapping, DurableMap::Pages);
        (config.ftl.copy_mode, config.nand.any_page_order) =
            (CopyMode::Physical, mapping == "replacement-block");
        let error = build(&config, false, 1).err().expect("refused");
        assert!(matches!(&error, BuildError::MapPages(name) if name == mapping), "{error}");
        let text = error.to_string();
        assert!(text.contains("drive.ftl.durable_map = true") && text.contains(mapping), "{text}");
    }
    let mut config = with_pages("page", DurableMap::Pages);
    config.nand.pages_per_block = 6;
    config.ftl.slc_cache.static_blocks = 4;
    let text = build(&config, false, 1).err().expect("refused").to_string();
    assert!(text.contains("slc_cache") && text.contains("drive.ftl.durable_map = true"), "{text}");
}

#[test]
fn a_file_has_a_truth_value_or_the_name() {
    let parsed = |value: &str| {
        let text = format!("preset = \"generic-8g\"\nftl.durable_map = {value}");
        DriveConfig::over_preset(text.parse().expect("TOML"))
    };
    for (value, form) in
        [("false", DurableMap::Volatile), ("true", DurableMap::Journal), ("\"pages\"", DurableMap::Pages)]
    {
        let drive = parsed(value).expect("a drive");
        assert_eq!(drive.ftl.durable_map, form);
        let written = serde_json::to_value(&drive.ftl).expect("serializes")["durable_map"].to_string();
        assert_eq!(written, if form == DurableMap::Volatile { "null" } else { value });
    }
    for wrong in ["\"page\"", "1", "\"true\""] {
        let text = parsed(wrong).expect_err("refused").to_string();
        assert!(text.contains("durable_map") && text.contains("pages"), "{text}");
    }
    assert!(!config().ftl.durable_map.is_durable());
}
