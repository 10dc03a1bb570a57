//! Promises of the configuration's documentation.

use strobe_ftl::gc::Greedy;
use strobe_nand::NandOp;
use strobe_ssd::{
    Allocation, BuildError, Capacity, DataMode, DriveBuilder, DriveConfig, GcMode, GcStream, POLICIES,
    SchemeName, SuspendConfig, build, build_on_image, memory_bytes, presets,
};
use strobe_types::Op;

use crate::setup::{ERASE, PROGRAM, T0, TRANSFER, buffered, closed, config, shaped, unit_writes, write_unit};

#[test]
fn every_preset_parses_and_describes_a_possible_drive() {
    for preset in presets::PRESETS {
        let config: DriveConfig =
            toml::from_str(preset.toml).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        memory_bytes(&config).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        assert_eq!(presets::find(preset.name).map(|found| found.name), Some(preset.name));
    }
}

#[test]
fn every_listed_policy_builds_and_runs() {
    for policy in POLICIES {
        let mut config = config();
        config.ftl.gc.victim = policy.name.to_owned();
        let mut engine = build(&config, false, 1).expect("listed policies exist");
        engine.run(&unit_writes(160, 3000, 1), &[], &mut closed(1)).expect("runs");
        assert!(engine.stats().nand.total(NandOp::Erase) > 0, "{}", policy.name);
        engine.check().expect("state");
    }
}

#[test]
fn every_allocation_is_the_one_that_its_name_says() {
    let wear = |allocation| {
        let mut config = config();
        config.ftl.allocation = allocation;
        config.ftl.placement.scheme = SchemeName::HotCold.into();
        let mut engine = build(&config, false, 1).expect("a drive");
        // A quarter of the drive takes nearly all writes: data is hot or cold.
        for round in 0..40 {
            engine.run(&unit_writes(40, 900, round), &[], &mut closed(1)).expect("runs");
            engine.run(&unit_writes(160, 100, round), &[], &mut closed(1)).expect("runs");
        }
        let wear = engine.wear();
        (wear.erase_stddev, wear.erase_max)
    };
    let [fifo, least_erased, adaptive] =
        [Allocation::Fifo, Allocation::LeastErased, Allocation::Adaptive].map(wear);
    println!("{fifo:?} {least_erased:?} {adaptive:?}");
    assert!(least_erased.0 < fifo.0, "{least_erased:?} {fifo:?}");
    assert!(adaptive.0 < least_erased.0, "{adaptive:?} {least_erased:?}");
}

/// Exception: the two names of SepGC.
#[test]
fn every_placement_is_the_one_that_its_name_says() {
    use SchemeName::{Dac, Fadac, Gw, HotCold, Midas, None, SepGc, Sepbit, Sfs, TwoR, Uw, Warcip};
    let totals = |scheme: SchemeName, stream, garbage_share| {
        let mut config = config();
        config.nand.blocks_per_plane = 70;
        config.ftl.logical_pages = Some(260);
        config.ftl.placement.scheme = scheme.into();
        config.ftl.gc.stream = stream;
        config.ftl.gc.garbage_share = garbage_share;
        let mut engine = build(&config, false, 1).expect("a drive");
        for round in 0..30 {
            engine.run(&unit_writes(60, 500, round), &[], &mut closed(1)).expect("runs");
            engine.run(&unit_writes(260, 200, round), &[], &mut closed(1)).expect("runs");
        }
        engine.check().expect("state");
        engine.stats().nand.total(NandOp::Program)
    };
    let (own, host) = (GcStream::Own, GcStream::Host);
    let mut seen: Vec<_> = [None, Sepbit, Uw, Gw, Dac, Fadac, Warcip, Sfs, HotCold, Midas, TwoR]
        .map(|scheme| totals(scheme, own, 0.0))
        .to_vec();
    assert_eq!(totals(SepGc, host, 0.0), seen[0]);
    seen.push(totals(None, host, 0.0));
    // Uses less than the whole drive.
    seen.push(totals(None, own, 0.1));
    seen.sort_unstable();
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
}

#[test]
fn a_run_that_only_counts_counts_the_same_whatever_is_stored_and_keeps_no_times() {
    for mapping in ["page", "dftl", "log-block", "fast"] {
        let counted = |data, timing| {
            let mut config = config();
            config.ftl.mapping = mapping.to_owned();
            config.nand.data = data;
            config.controller.command_ns = 1000;
            if !["page", "dftl"].contains(&mapping) {
                (config.ftl.log_blocks, config.ftl.logical_pages) = (4, Some(128));
            }
            let mut engine = build(&config, timing, 1).expect("builds");
            engine.run(&unit_writes(128, 3000, 1), &[], &mut closed(1)).expect("runs");
            (engine.stats().nand.clone(), engine.latency().of(Op::Write).count())
        };
        let (counts, latencies) = counted(DataMode::None, false);
        assert!(counts.total(NandOp::Erase) > 0 && latencies == 0, "{mapping}");
        for data in [DataMode::Stamp, DataMode::Bytes] {
            assert_eq!(counted(data, false), (counts.clone(), 0), "{mapping}");
        }
        for data in [DataMode::None, DataMode::Stamp] {
            assert_eq!(counted(data, true), (counts.clone(), 3000), "{mapping}");
        }
    }
}

#[test]
fn room_is_what_is_left_of_flash() {
    let mut config = config();
    let room = Capacity::of(&config).expect("possible");
    assert_eq!((room.raw_bytes, room.logical_bytes, room.reserved_bytes), (1 << 20, 160 * 4096, 0));
    assert!((room.over_provisioning() - 0.6).abs() < 1e-12);
    config.nand.factory_bad_blocks = 2;
    let room = Capacity::of(&config).expect("possible");
    assert_eq!(room.reserved_bytes, 2 * 8 * 4096);
    assert!((room.over_provisioning() - 0.5).abs() < 1e-12);
    config.ftl.durable_map = true.into();
    assert!(Capacity::of(&config).expect("possible").reserved_bytes > 2 * 8 * 4096);
}

#[test]
fn unknown_names_are_refused_with_key_and_known_names() {
    let mut wrong = config();
    wrong.ftl.gc.victim = "greedier".to_owned();
    let text = build(&wrong, false, 1).err().expect("unknown").to_string();
    assert!(
        text.contains("drive.ftl.gc.victim: unknown variable greedier") && text.contains("d-choices"),
        "{text}"
    );
    let mut wrong = config();
    wrong.ftl.mapping = "pages".to_owned();
    let text = build(&wrong, false, 1).err().expect("unknown").to_string();
    assert!(
        text.contains("drive.ftl.mapping = \"pages\" is not known") && text.contains("known are page"),
        "{text}"
    );
}

#[test]
fn values_outside_their_documented_ranges_are_refused_whoever_builds() {
    let refused = |change: fn(&mut DriveConfig), key: &str| {
        let mut config = config();
        // Required for an image.
        (config.nand.data, config.ftl.durable_map) = (DataMode::Bytes, true.into());
        change(&mut config);
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("image");
        for built in [
            build(&config, false, 1),
            DriveBuilder::new(&config, false, 1).and_then(|builder| {
                let policy = Greedy::new(builder.geometry().blocks());
                builder.with_victims(policy).build()
            }),
            build_on_image(&config, false, 1, &image).map(|(drive, _)| drive),
        ] {
            let Err(BuildError::Key(error)) = built else { panic!("{key} is refused for what it is") };
            assert_eq!(error.key(), key);
        }
        assert!(!image.exists());
    };
    refused(|config| config.nand.program_fail_rate = 1.5, "drive.nand.program_fail_rate");
    refused(|config| config.nand.program_fail_rate = f64::NAN, "drive.nand.program_fail_rate");
    refused(|config| config.nand.erase_ns = u64::MAX / 2, "drive.nand.erase_ns");
    refused(|config| config.ftl.gc.choices = 0, "drive.ftl.gc.choices");
    refused(|config| config.controller.limits.trim_ranges = 257, "drive.controller.limits.trim_ranges");
    let mut config = config();
    config.nand.erase_ns = u64::MAX;
    assert!(build(&config, false, 1).is_err(), "more than TOML can say");
}

#[test]
fn a_preset_is_a_drive_and_keys_go_over_it() {
    let drive = DriveConfig::preset("tlc-nvme-1t").expect("a preset");
    assert_eq!((drive.preset.as_deref(), drive.nand.channels), (Some("tlc-nvme-1t"), 8));
    let error = DriveConfig::preset("tlc-nvme-2t").expect_err("none").to_string();
    assert!(error.contains("did you mean tlc-nvme-1t?"), "{error}");
    let over = |text: &str| DriveConfig::over_preset(text.parse().expect("TOML"));
    let half = over("nand.blocks_per_plane = 4096").expect("of generic-8g");
    assert_eq!(half.ftl.logical_pages, Some(1_635_778 / 2), "over-provisioned as before");
    let error = over("preset = \"jasmine-4g\"\nnand.channels = 0").expect_err("a range").to_string();
    assert!(error.contains("drive.nand.channels = 0: must be a whole number from 1 to 256"), "{error}");
}

#[test]
fn drives_that_cannot_work_are_refused() {
    let mut full = config();
    full.ftl.logical_pages = Some(32 * 8);
    assert!(matches!(build(&full, false, 1), Err(BuildError::Capacity(_))));
    let mut empty = config();
    empty.ftl.logical_pages = Some(0);
    assert!(matches!(build(&empty, false, 1), Err(BuildError::LogicalPages(0))));
    let mut odd = config();
    odd.ftl.mapping_unit_bytes = 3000;
    assert!(matches!(build(&odd, false, 1), Err(BuildError::Geometry(_))));
    let mut dead = config();
    dead.nand.factory_bad_blocks = 1000;
    assert!(matches!(build(&dead, false, 1), Err(BuildError::AllBad { .. })));
}

/// 32 blocks, 20 of them for the host; a program takes 700 µs, an erase 5 ms; three blocks are always kept.
#[test]
fn times_and_marks_that_contradict_each_other_are_refused_with_key_and_cure() {
    let refused = |change: fn(&mut DriveConfig), parts: &[&str]| {
        let mut config = config();
        config.ftl.gc.mode = GcMode::Background;
        change(&mut config);
        let Err(error) = build(&config, true, 1) else { panic!("built, but {parts:?}") };
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
        let cures = ["from 0 to", "0 lets the drive choose", "0 to let the drive choose", "suspend.most = 0"];
        let has_cure = cures.iter().any(|cure| text.contains(cure));
        assert!(has_cure, "{text}");
    };
    let suspend = |most, suspend_ns, resume_ns, least_left_ns| SuspendConfig {
        most,
        suspend_ns,
        resume_ns,
        least_left_ns,
    };
    let sum = "suspend_ns + resume_ns is 700000 ns";
    refused(
        |c| c.nand.suspend = SuspendConfig { most: 1, suspend_ns: 700_000, resume_ns: 0, ..c.nand.suspend },
        &[sum],
    );
    refused(
        |c| c.nand.suspend = SuspendConfig { most: 1, suspend_ns: 0, resume_ns: 700_000, ..c.nand.suspend },
        &[sum],
    );
    refused(
        |c| (c.nand.suspend.most, c.nand.suspend.least_left_ns) = (1, ERASE),
        &["least_left_ns is 5000000"],
    );
    refused(|c| c.nand.suspend.most = 1_000_001, &["drive.nand.suspend.most = 1000001", "from 0 to 1000000"]);
    refused(|c| c.nand.suspend.suspend_ns = u64::MAX / 2, &["drive.nand.suspend.suspend_ns", "from 0 to"]);
    refused(|c| c.nand.suspend.resume_ns = u64::MAX / 2, &["drive.nand.suspend.resume_ns", "from 0 to"]);
    refused(
        |c| c.nand.suspend.least_left_ns = u64::MAX / 2,
        &["drive.nand.suspend.least_left_ns", "from 0 to"],
    );
    refused(
        |c| c.ftl.gc.low_watermark_blocks = 3,
        &["drive.ftl.gc.low_watermark_blocks is 3", "more than the 3", "0 lets"],
    );
    refused(
        |c| c.ftl.gc.high_watermark_blocks = 4,
        &["drive.ftl.gc.high_watermark_blocks is 4", "more than the 4", "0 lets"],
    );
    refused(
        |c| (c.ftl.gc.high_watermark_blocks, c.ftl.gc.low_watermark_blocks) = (6, 6),
        &["high_watermark_blocks is 6", "more than the 6"],
    );
    refused(
        |c| (c.ftl.gc.high_watermark_blocks, c.ftl.gc.low_watermark_blocks) = (6, 9),
        &["high_watermark_blocks is 6", "more than the 9"],
    );
    refused(
        |c| c.ftl.gc.high_watermark_blocks = 13,
        &["drive.ftl.gc.high_watermark_blocks is 13", "only 12 spare blocks"],
    );
    refused(
        |c| c.ftl.gc.low_watermark_blocks = 13,
        &["drive.ftl.gc.low_watermark_blocks is 13", "only 12 spare blocks"],
    );
    refused(|c| c.ftl.gc.victims = 33, &["drive.ftl.gc.victims is 33", "32 good blocks", "0 lets"]);
    refused(
        |c| c.controller.schedule.host_program_ns = u64::MAX / 2,
        &["drive.controller.schedule.host_program_ns"],
    );
    refused(|c| c.controller.schedule.background_read_ns = u64::MAX / 2, &["schedule.background_read_ns"]);
    refused(
        |c| c.controller.schedule.background_program_ns = u64::MAX / 2,
        &["schedule.background_program_ns"],
    );
    refused(|c| c.controller.schedule.erase_ns = u64::MAX / 2, &["drive.controller.schedule.erase_ns"]);
    for (high, low, victims) in [(5, 0, 0), (5, 4, 1), (12, 4, 32), (12, 11, 2), (0, 12, 0), (0, 4, 0)] {
        let mut config = config();
        let gc = &mut config.ftl.gc;
        (gc.mode, gc.high_watermark_blocks, gc.low_watermark_blocks, gc.victims) =
            (GcMode::Background, high, low, victims);
        config.nand.suspend = suspend(1, PROGRAM - 1, 0, ERASE - 1);
        let mut engine = build(&config, true, 1).expect("possible");
        engine.run(&unit_writes(160, 3000, 1), &[], &mut closed(4)).expect("runs");
        assert!(engine.stats().gc.victims > 0, "{high} {low} {victims}");
        engine.check().expect("state");
    }
}

#[test]
fn an_slc_cache_that_cannot_be_is_refused_with_key_and_cure() {
    let refused = |change: fn(&mut DriveConfig), parts: &[&str]| {
        let mut config = config();
        config.nand.slc.bits_per_cell = 2;
        config.ftl.slc_cache.static_blocks = 2;
        change(&mut config);
        let Err(error) = build(&config, true, 1) else { panic!("built, but {parts:?}") };
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
    };
    refused(
        |c| c.nand.slc.bits_per_cell = 3,
        &[
            "drive.nand.slc.bits_per_cell (times pages_per_program) is 3",
            "8 pages",
            "drive.nand.pages_per_block a multiple of 3",
        ],
    );
    refused(|c| c.nand.slc.bits_per_cell = 5, &["drive.nand.slc.bits_per_cell"]);
    refused(|c| c.nand.slc.bits_per_cell = 0, &["drive.nand.slc.bits_per_cell"]);
    refused(
        |c| c.ftl.mapping = "log-block".to_owned(),
        &["drive.ftl.slc_cache", "\"log-block\"", "static_blocks and dynamic_blocks to 0"],
    );
    refused(|c| c.ftl.mapping = "dftl".to_owned(), &["drive.ftl.slc_cache", "only \"page\" does"]);
    refused(|c| c.nand.any_page_order = true, &["any_page_order is true"]);
    refused(
        |c| c.ftl.slc_cache.static_blocks = 9,
        &["the SLC cache is too large", "lower drive.ftl.slc_cache.static_blocks", "9 always in SLC mode"],
    );
    refused(
        |c| c.ftl.slc_cache.static_blocks = 32,
        &["static_blocks is 32", "only 32 good blocks", "give less"],
    );
    refused(|c| c.ftl.slc_cache.dynamic_blocks = 40, &["dynamic_blocks is 40", "only 32 good blocks"]);
    refused(|c| c.ftl.slc_cache.fold_at = 3, &["fold_at is 3", "no more than 2 blocks", "0 to fold only"]);
    refused(|c| c.ftl.slc_cache.fold_idle_ns = 2_000_000_000_000, &["drive.ftl.slc_cache.fold_idle_ns"]);
}

#[test]
fn over_provisioning_is_spare_per_logical() {
    let mut config = config();
    config.ftl.logical_pages = None;
    config.ftl.over_provisioning = Some(0.6);
    assert_eq!(config.logical_units(), 160);
    config.ftl.over_provisioning = Some(0.5);
    assert_eq!(config.logical_units(), 170, "256 / 1.5, rounded down");
    let engine = build(&config, false, 1).expect("fits");
    assert_eq!((engine.logical_units(), engine.sectors()), (170, 170 * 8));
    assert_eq!(config.logical_bytes(), 170 * 4096);
}

#[test]
fn a_unit_smaller_than_the_page_multiplies_the_logical_units() {
    let mut config = config();
    config.nand.page_bytes = 16_384;
    config.ftl.logical_pages = None;
    config.ftl.over_provisioning = Some(0.6);
    assert_eq!(config.logical_units(), 4 * 160);
    assert_eq!(build(&config, false, 1).expect("fits").logical_units(), 4 * 160);
}

#[test]
fn collection_starts_at_the_free_blocks_asked_for_and_keeps_them() {
    for min_free_blocks in [0, 5, 8] {
        let mut config = config();
        config.ftl.gc.min_free_blocks = min_free_blocks;
        let mut engine = build(&config, false, 1).expect("fits");
        engine.run(&unit_writes(160, 5000, 1), &[], &mut closed(1)).expect("runs");
        let least = if min_free_blocks == 0 { 3 } else { min_free_blocks };
        // The host's next block may already be taken from the reserve.
        assert!((least - 1..=least + 1).contains(&engine.free_blocks()), "{}", engine.free_blocks());
    }
}

#[test]
fn factory_bad_blocks_are_out_of_service_from_the_start() {
    let mut config = config();
    config.nand.factory_bad_blocks = 4;
    let engine = build(&config, false, 1).expect("fits");
    assert_eq!((engine.wear().bad_blocks, engine.free_blocks()), (4, 28));
}

#[test]
fn a_block_survives_exactly_the_endurance_asked_for() {
    let mut config = config();
    config.nand.endurance_pe = 7;
    let mut engine = build(&config, false, 1).expect("fits");
    engine.run(&unit_writes(160, 100_000, 1), &[], &mut closed(1)).expect_err("wears out");
    assert!(engine.wear().erase_max == 7 && engine.wear().bad_blocks > 0);
    config.nand.endurance_pe = 0;
    let mut engine = build(&config, false, 1).expect("fits");
    engine.run(&unit_writes(160, 50_000, 1), &[], &mut closed(1)).expect("0 is unlimited");
}

/// "0: writes complete when they are on flash", so any other value buffers.
#[test]
fn a_write_buffer_smaller_than_a_unit_still_buffers() {
    for bytes in [1, 512, 4095] {
        let mut config = config();
        config.controller.write_buffer_bytes = bytes;
        let mut engine = build(&config, true, 1).expect("valid");
        let mut queue = closed(1);
        engine.run(&[write_unit(0)], &[], &mut queue).expect("runs");
        assert_eq!(queue.finished(), T0, "{bytes} bytes");
    }
}

#[test]
fn memory_is_estimated_before_building() {
    let per_unit = |data| {
        let mut config = config();
        config.nand.data = data;
        memory_bytes(&config).expect("valid") / 256
    };
    let (none, stamp, bytes) =
        (per_unit(DataMode::None), per_unit(DataMode::Stamp), per_unit(DataMode::Bytes));
    assert!(none < 16 && stamp > none + 8 && bytes > 4096, "{none} {stamp} {bytes}");
    assert!(memory_bytes(&buffered(config(), 1000)).expect("valid") >= 64_000);
}

#[test]
fn transfers_follow_the_channel_rate() {
    for (channel_mb_s, transfer) in [(800, TRANSFER), (400, 2 * TRANSFER), (1, 4_096_000), (0, 0)] {
        let mut config = shaped(1, 1, 1);
        config.nand.channel_mb_s = channel_mb_s;
        config.nand.program_ns = 0.into();
        let mut engine = build(&config, true, 1).expect("valid");
        let mut queue = closed(1);
        engine.run(&[write_unit(0)], &[], &mut queue).expect("runs");
        assert_eq!(queue.finished().as_ns(), transfer);
    }
}

#[test]
fn a_policy_that_would_never_be_asked_is_refused() {
    let mut config = config();
    config.ftl.mapping = "fast".to_owned();
    let Err(error) = DriveBuilder::new(&config, false, 1) else { panic!("it is built") };
    assert!(matches!(&error, BuildError::NoVictims(mapping) if mapping == "fast"), "{error}");
}
