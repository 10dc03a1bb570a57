//! Wrong requests: exit code 2, no output, and a message with the key, the value, the allowed range and a
//! suggestion.

use crate::{Folder, TINY, root};

#[test]
fn unknown_keys_and_names_are_answered_with_the_nearest() {
    let folder = Folder::new();
    for (set, expected) in [
        ("drive.nand.chanels=2", &["drive.nand.chanels", "did you mean drive.nand.channels?"][..]),
        ("drive.ftl.gc.victim=gredy", &["drive.ftl.gc.victim", "gredy", "did you mean greedy?", "fifo"]),
        ("drive.ftl.mapping=pgae", &["drive.ftl.mapping", "did you mean page?"]),
        ("drive.preset=generic8g", &["drive.preset", "did you mean generic-8g?", "tlc-nvme-1t"]),
        ("drive.nand.data=byts", &["drive.nand.data", "did you mean bytes?"]),
        ("workload.kind=zpif", &["workload.kind", "did you mean zipf?", "trace"]),
        ("workload.blok_bytes=4096", &["workload.blok_bytes", "did you mean workload.block_bytes?"]),
        ("run.mesure=3", &["run.mesure", "did you mean run.measure?"]),
        ("sede=3", &["sede", "did you mean seed?"]),
        // Removed keys.
        ("drive.ftl.virtual_map_full=3", &["unknown key drive.ftl.virtual_map_full", "virtual_map_entries"]),
        ("drive.ftl.map_flush_entries=3", &["unknown key drive.ftl.map_flush_entries", "mapping_unit_bytes"]),
    ] {
        let option = format!("--set {set}: ");
        let expected = [&[option.as_str()], expected].concat();
        folder.tiny(&[set]).refused(&expected);
        folder.strobe(&["check", "tiny.toml", "--set", set]).refused(&expected);
    }
}

#[test]
fn values_out_of_range_are_answered_with_the_range() {
    let folder = Folder::new();
    for (set, expected) in [
        ("drive.nand.channels=0", &["drive.nand.channels=0", "from 1 to 256"][..]),
        ("drive.nand.channels=257", &["from 1 to 256"]),
        ("drive.nand.pages_per_block=\"many\"", &["drive.nand.pages_per_block", "a whole number from 1"]),
        ("drive.nand.program_fail_rate=1.5", &["drive.nand.program_fail_rate=1.5", "from 0 to 1"]),
        ("drive.nand.program_fail_rate=nan", &["nan", "from 0 to 1"]),
        ("drive.ftl.over_provisioning=inf", &["drive.ftl.over_provisioning=inf"]),
        ("drive.ftl.over_provisioning=-0.1", &["-0.1"]),
        ("drive.nand.endurance_pe=9223372036854775807", &["to 4294967295"]),
        ("workload.block_bytes=5000000000", &["workload.block_bytes=5000000000", "from 512 to 4294967295"]),
        ("workload.theta=nan", &["workload.theta=nan", "from 0 to 100"]),
        ("workload.hot_fraction=1", &["greater than 0 and less than 1"]),
        ("workload.queue_depth=65537", &["from 1 to 65536"]),
        ("workload.write_fraction=\"half\"", &["workload.write_fraction", "a number from 0 to 1"]),
        ("workload.kind=1979-05-27", &["workload.kind=1979-05-27", "uniform"]),
        ("workload.kind=[1, 2]", &["workload.kind=[1, 2]"]),
        ("drive.preset=3", &["drive.preset=3", "generic-8g"]),
        ("run.measure=-1", &["run.measure=-1"]),
        ("run.measure=1.5", &["run.measure=1.5"]),
        ("run.measure=1y", &["run.measure=1y", "12x"]),
        ("run.measure=infx", &["run.measure", "12x"]),
        ("run.measure=\"18446744073709551615\"", &["run.measure", "18446744073709551615"]),
        ("run.until_bad_blocks=0", &["run.until_bad_blocks=0", "from 1 to"]),
        ("run.until_end_of_life=3", &["run.until_end_of_life=3", "true or false"]),
        ("run.timing=1", &["run.timing=1", "true or false"]),
        ("seed=-1", &["seed=-1", "from 0 on"]),
        ("seed=18446744073709551615", &["seed", "from 0 on"]),
        ("drive=3", &["drive=3", "[drive]"]),
    ] {
        folder.tiny(&[set]).refused(&[&[format!("--set {set}: ").as_str()], expected].concat());
    }
}

#[test]
fn relations_between_keys_are_explained() {
    let folder = Folder::new();
    for (sets, expected) in [
        (&["workload.block_bytes=1000"][..], &["block_bytes", "1000", "512"][..]),
        (
            &["workload.block_bytes=\"1g\""],
            &["workload.block_bytes", "1073741824", "655360 bytes of the drive"],
        ),
        (&["workload.offset_bytes=\"1m\""], &["workload.offset_bytes", "655360"]),
        (&["workload.size_bytes=\"1m\""], &["workload.size_bytes", "655360"]),
        (
            &["workload.kind=gaussian", "workload.sigma=0.1", "workload.hot_share=0.1"],
            &["sigma", "hot_share"],
        ),
    ] {
        folder.tiny(sets).refused(expected);
        // `strobe check` already refuses them.
        let sets = sets.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        folder.strobe(&[&["check", "tiny.toml"], &sets[..]].concat()).refused(expected);
    }
    folder.write(
        "both.toml",
        TINY.replace("logical_pages = 160", "logical_pages = 160\nover_provisioning = 0.2"),
    );
    folder.strobe(&["check", "both.toml"]).refused(&["over_provisioning", "logical_pages"]);
}

#[test]
fn waiting_for_wear_that_never_comes_is_refused() {
    let folder = Folder::new();
    folder.write("open.toml", TINY.replace("measure = \"4x\"\n", ""));
    let open = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        folder.strobe(&[&["run", "open.toml", "--quiet"], &sets[..]].concat())
    };
    for end in ["run.until_bad_blocks=1", "run.until_end_of_life=true"] {
        let key = end.split('=').next().expect("a key");
        let unlimited = "drive.nand.endurance_pe=0";
        open(&[end, unlimited]).refused(&[
            key,
            "drive.nand.endurance_pe",
            "program_fail_rate",
            "run.measure",
        ]);
        open(&[end, "workload.write_fraction=0"]).refused(&[key, "workload.write_fraction", "run.measure"]);
        open(&[end, unlimited, "run.measure=10"]).ok();
    }
}

#[test]
fn one_knob_under_two_names_is_refused() {
    let folder = Folder::new();
    for (sets, expected) in [
        (["workload.bs=\"8k\"", "workload.block_bytes=4096"], "workload.bs"),
        (["workload.iodepth=2", "workload.queue_depth=3"], "workload.iodepth"),
        (["workload.rwmixread=30", "workload.rwmixwrite=20"], "workload.rwmixread"),
        (["workload.rwmixwrite=30", "workload.write_fraction=0.2"], "workload.rwmixwrite"),
    ] {
        folder.tiny(&sets).refused(&[expected, "left out"]);
    }
}

#[test]
fn zones_that_are_not_two_are_refused() {
    let folder = Folder::new();
    let set = |zones: &str| format!("workload.random_distribution=zoned:{zones}");
    for zones in ["80", "80/20:20/30", "60/10:30/20:10/70", "80/20:", "a/b", "80/20/5:15/80", "nan/20"] {
        folder.tiny(&[&set(zones)]).refused(&["workload.random_distribution", zones, "two zones"]);
    }
    for zones in ["80/20", "80/20:20/80"] {
        folder.tiny(&[&set(zones)]).ok();
    }
}

#[test]
fn a_result_is_not_written_over_an_input() {
    let folder = Folder::new();
    folder.write("t", "1,h,0,Write,0,4096,1\n");
    folder.write("e.toml", "[workload]\nkind = \"trace\"\npath = \"t\"\nformat = \"msr\"\n");
    let replay = ["replay", "t", "--format", "msr", "--drive", "drive.toml", "--json"];
    for args in [
        &["run", "tiny.toml", "--json", "tiny.toml"][..],
        &["run", "tiny.toml", "--json", "./tiny.toml"],
        &["run", "e.toml", "--json", "t"],
        &[&replay[..], &["t"]].concat(),
        &[&replay[..], &["drive.toml"]].concat(),
    ] {
        folder.strobe(args).refused(&["--json", "input"]);
    }
    assert_eq!(folder.read("tiny.toml"), TINY);
    assert_eq!(folder.read("t"), "1,h,0,Write,0,4096,1\n");
}

#[test]
fn a_message_says_everything_once() {
    let folder = Folder::new();
    for args in [
        &["run", "missing.toml"][..],
        &["run", "tiny.toml", "--set", "drive.nand.page_bytes=1000"],
        &["check", "tiny.toml", "--set", "drive.ftl.over_provisioning=0"],
        &["replay", "missing", "--format", "msr"],
        &["run", "tiny.toml", "--set", "workload.block_bytes=1000"],
    ] {
        let ended = folder.strobe(args);
        let message = ended.err.trim_end().trim_start_matches("strobe: ");
        let half = message.rsplit(": ").next().expect("a last part");
        assert_eq!(message.matches(half).count(), 1, "{message}");
    }
}

#[test]
fn impossible_geometries_are_refused() {
    let folder = Folder::new();
    for (sets, expected) in [
        (&["drive.nand.blocks_per_plane=0"][..], &["drive.nand.blocks_per_plane=0", "from 1"][..]),
        (&["drive.nand.page_bytes=6000"], &["page_bytes is 6000", "multiple of mapping_unit_bytes = 4096"]),
        (&["drive.ftl.mapping_unit_bytes=8192"], &["mapping_unit_bytes = 8192"]),
        (&["drive.ftl.mapping_unit_bytes=3000"], &["3000", "power of two from 512"]),
        (
            &["drive.nand.blocks_per_plane=16777216", "drive.nand.pages_per_block=65536"],
            &["1099511627776 mapping units", "at most 4294967294", "fewer blocks"],
        ),
        (
            &[
                "drive.nand.channels=256",
                "drive.nand.dies_per_channel=256",
                "drive.nand.planes_per_die=64",
                "drive.nand.blocks_per_plane=16777216",
                "drive.nand.pages_per_block=65536",
                "drive.nand.page_bytes=1048576",
                "drive.ftl.mapping_unit_bytes=512",
            ],
            &["mapping units"],
        ),
    ] {
        folder.tiny(sets).refused(expected);
    }
}

#[test]
fn times_and_marks_that_contradict_each_other_are_refused_with_the_cure() {
    let folder = Folder::new();
    for (sets, expected) in [
        (
            &["drive.nand.suspend.most=1", "drive.nand.suspend.suspend_ns=10000000000"][..],
            &["drive.nand.suspend: suspend_ns + resume_ns is 10000005000 ns", "drive.nand.suspend.most = 0"]
                [..],
        ),
        (
            &["drive.nand.suspend.most=1", "drive.nand.suspend.resume_ns=10000000000"],
            &["drive.nand.suspend: suspend_ns + resume_ns", "drive.nand.suspend.most = 0"],
        ),
        (
            &["drive.nand.suspend.most=1", "drive.nand.suspend.least_left_ns=10000000000"],
            &["drive.nand.suspend.least_left_ns is 10000000000", "drive.nand.suspend.most = 0"],
        ),
        (
            &["drive.nand.pages_per_block=16", "drive.nand.read_ns=[1,2,3]"],
            &["drive.nand.read_ns gives the times of 3 page types", "16 pages", "a multiple of 3"],
        ),
        (
            &["drive.nand.program_ns=[1,2,3]", "drive.nand.pages_per_block=16"],
            &["drive.nand.program_ns gives the times of 3", "one time for all pages"],
        ),
        (
            &["drive.nand.read_ns=[1,2]", "drive.nand.program_ns=[1,2,3,4]", "drive.nand.pages_per_block=16"],
            &["read_ns gives the times of 2 page types and program_ns of 4", "the same number"],
        ),
        (
            &["drive.nand.read_ns=[1,2,3,4,5,6,7,8,9]"],
            &[
                "drive.nand.read_ns = [1, 2, 3, 4, 5, 6, 7, 8, 9]",
                "a whole number from 0 to",
                "or a list of up to 8",
            ],
        ),
        (&["drive.nand.read_ns=[]"], &["drive.nand.read_ns=[]", "or a list of up to 8"]),
        (&["drive.nand.read_ns=[1,-2]"], &["drive.nand.read_ns[1] = -2", "from 0 to"]),
        (&["drive.nand.read_ns=fast"], &["drive.nand.read_ns", "a whole number from 0 to"]),
        (&["drive.nand.suspend.most=-1"], &["drive.nand.suspend.most=-1", "from 0 to 1000000"]),
        (&["drive.ftl.gc.mode=sometimes"], &["drive.ftl.gc.mode", "background", "stop-the-world"]),
        (
            &["drive.ftl.gc.low_watermark_blocks=2"],
            &["drive.ftl.gc.low_watermark_blocks is 2", "0 lets the drive choose"],
        ),
        (
            &["drive.ftl.gc.high_watermark_blocks=2"],
            &["drive.ftl.gc.high_watermark_blocks is 2", "0 lets the drive choose"],
        ),
        (
            &["drive.ftl.gc.high_watermark_blocks=6", "drive.ftl.gc.low_watermark_blocks=9"],
            &[
                "drive.ftl.gc.high_watermark_blocks is 6",
                "drive.ftl.gc.low_watermark_blocks",
                "0 lets the drive choose",
            ],
        ),
        (
            &["drive.ftl.gc.high_watermark_blocks=13"],
            &["drive.ftl.gc.high_watermark_blocks is 13", "only 12 spare blocks", "give less"],
        ),
        (
            &["drive.ftl.gc.low_watermark_blocks=13"],
            &["drive.ftl.gc.low_watermark_blocks is 13", "only 12 spare blocks", "give less"],
        ),
        (
            &["drive.ftl.gc.victims=33"],
            &["drive.ftl.gc.victims is 33", "32 good blocks", "0 lets the drive choose"],
        ),
        (&["drive.controller.schedule.erase_ns=-1"], &["drive.controller.schedule.erase_ns=-1", "from 0 to"]),
        (&["drive.controller.schedule.host_program_ns=2000000000000"], &["host_program_ns", "from 0 to"]),
        (
            &["drive.controller.schedule.background_read_ns=x"],
            &["background_read_ns", "a whole number from 0"],
        ),
        (&["drive.controller.schedule.background_programm_ns=1"], &["did you mean", "background_program_ns"]),
    ] {
        folder.tiny(sets).refused(expected);
        // `strobe check` already refuses them.
        let sets = sets.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        folder.strobe(&[&["check", "tiny.toml"], &sets[..]].concat()).refused(expected);
    }
}

#[test]
fn a_job_names_the_handles_of_every_reclaim_group() {
    let folder = Folder::new();
    let file = root().join("examples/fdp.toml");
    let check = |handle: &str| {
        let mut args = vec!["check".to_owned(), file.display().to_string()];
        let of_drive = ["nand.dies_per_channel=2", "ftl.placement.groups=2"];
        let sets = of_drive
            .iter()
            .map(|set| format!("drive.{set}"))
            .chain([format!("jobs.hot.placement_handle={handle}")]);
        args.extend(sets.flat_map(|set| ["--set".to_owned(), set]));
        folder.strobe(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    check("3").ok();
    check("4").refused(&["jobs[1].placement_handle", "below 4, the handles", "of 2 groups"]);
}

#[test]
fn keys_of_time_without_effect_are_refused_with_what_makes_them_count() {
    let folder = Folder::new();
    let suspend =
        ["suspend_ns", "resume_ns", "least_left_ns"].map(|key| format!("drive.nand.suspend.{key}=7"));
    let marks = ["high_watermark_blocks=9", "low_watermark_blocks=6", "victims=2"]
        .map(|set| format!("drive.ftl.gc.{set}"));
    let schedule = ["host_program_ns", "background_read_ns", "background_program_ns", "erase_ns"]
        .map(|key| format!("drive.controller.schedule.{key}=7"));
    let refused = |set: &str, without: &str, cure: &str| {
        let key = set.split('=').next().expect("a key");
        folder.tiny(&[set, without]).refused(&[key, cure]);
    };
    for set in &suspend {
        folder
            .tiny(&[set])
            .refused(&[set.split('=').next().expect("a key"), "drive.nand.suspend.most is above 0"]);
    }
    for set in &marks {
        refused(set, "drive.ftl.gc.mode=stop-the-world", "drive.ftl.gc.mode = \"background\"");
    }
    for set in marks.iter().chain(&schedule) {
        refused(set, "run.timing=false", "run.timing = true");
    }
    refused("drive.nand.suspend.most=1", "run.timing=false", "run.timing = true");
    for set in ["command_ns=300", "cache_read=true", "independent_plane_reads=true"] {
        refused(&format!("drive.nand.{set}"), "run.timing=false", "run.timing = true");
    }
    for set in ["cache_read=true", "spare_bytes=64"] {
        refused(&format!("drive.nand.{set}"), "drive.nand.channel_mb_s=0", "channel_mb_s is above 0");
    }
    for set in &schedule {
        refused(set, "drive.controller.issue=in-order", "drive.controller.issue = \"per-die\"");
    }
    refused(
        "drive.nand.independent_plane_reads=true",
        "drive.nand.planes_per_die=1",
        "planes_per_die is above 1",
    );
    refused(
        "drive.ftl.gc.victims=2",
        "drive.ftl.placement.scheme=sorted",
        "drive.ftl.placement.scheme is not \"sorted\"",
    );
    let (midas, sepbit) = ("drive.ftl.placement.scheme=midas", "drive.ftl.placement.scheme=sepbit");
    refused(midas, "drive.ftl.slc_cache.static_blocks=4", "drive.ftl.slc_cache");
    refused("drive.ftl.placement.streams=5", "drive.ftl.placement.scheme=hints", "scheme = \"sepbit\"");
    refused("drive.ftl.placement.streams=5", "drive.ftl.placement.scheme=uw", "scheme = \"sepbit\"");
    refused("drive.ftl.gc.stream=host", "drive.ftl.placement.scheme=sep-gc", "scheme = \"none\"");
    let two_r = "drive.ftl.placement.scheme=2r";
    refused(two_r, "run.timing=true", "drive.ftl.gc.mode = \"stop-the-world\"");
    refused(two_r, "drive.ftl.gc.garbage_share=0.1", "drive.ftl.gc.garbage_share = 0");
    refused("drive.ftl.gc.pad_moved=true", two_r, "a placement other than 2r");
    let garbage = "drive.ftl.gc.garbage_share=0.15";
    for set in
        ["drive.ftl.gc.victim=cost-benefit", "drive.ftl.mapping=dftl", "drive.ftl.slc_cache.static_blocks=4"]
    {
        refused(garbage, set, "drive.ftl.gc.victim = \"greedy\" or a formula");
    }
    refused("drive.ftl.placement.handles=5", sepbit, "scheme = \"handles\"");
    refused("workload.placement_handle=1", sepbit, "scheme = \"handles\"");
    refused(
        "workload.placement_handle=2",
        "drive.ftl.placement.scheme=handles",
        "below 2, the handles of the drive",
    );
    let handles = "drive.ftl.placement.scheme=handles";
    refused("drive.ftl.placement.unit_blocks=2", sepbit, "scheme = \"handles\"");
    refused(handles, "drive.ftl.mapping=fast", "drive.ftl.mapping = \"page\"");
    for set in ["drive.ftl.gc.mode=stop-the-world", "drive.ftl.die_allocation=stripe", marks[0].as_str()] {
        refused(set, "drive.ftl.mapping=fast", "drive.ftl.mapping = \"page\"");
    }
}

#[test]
fn too_little_spare_space_is_refused_with_the_arithmetic() {
    let folder = Folder::new();
    for sets in [&["drive.ftl.over_provisioning=0.01"][..], &["drive.ftl.logical_pages=255"]] {
        folder.tiny(sets).refused(&[
            "32 good blocks × 8 mapping units = 256",
            "at most 223",
            "at least 0.148",
        ]);
        let args = ["check", "tiny.toml", "--set", sets[0]];
        folder.strobe(&args).refused(&["223 logical units can be served"]);
    }
    // The suggested value works.
    folder.tiny(&["drive.ftl.logical_pages=223", "run.check=true"]).ok();
    folder.tiny(&["drive.ftl.over_provisioning=0.148", "run.check=true"]).ok();
    folder.tiny(&["drive.nand.factory_bad_blocks=16777216"]).refused(&["only 32 blocks"]);
    folder.tiny(&["drive.ftl.gc.min_free_blocks=16777216"]).refused(&["32 good blocks"]);
    let net = ["drive.ftl.gc.mode=stop-the-world", "drive.ftl.gc.net_blocks=16777216"];
    folder.tiny(&net).refused(&["32 good blocks"]);
    folder.tiny(&net[1..]).refused(&["drive.ftl.gc.net_blocks", "drive.ftl.gc.mode"]);
}

#[test]
fn a_drive_larger_than_memory_is_refused_with_what_it_needs() {
    let folder = Folder::new();
    let huge =
        ["drive.nand.data=bytes", "drive.nand.blocks_per_plane=4194304", "drive.nand.pages_per_block=1000"];
    folder.tiny(&huge).refused(&["needs", "GiB of memory", "available", "drive.nand.data"]);
}

#[test]
fn missing_and_unreadable_files_are_named() {
    let folder = Folder::new();
    folder.write("latin.toml", b"# \xe9\n");
    std::fs::create_dir(folder.path().join("dir.toml")).expect("a folder");
    folder.strobe(&["run", "missing.toml"]).refused(&["missing.toml", "No such file"]);
    folder.strobe(&["check", "missing.toml"]).refused(&["missing.toml", "No such file"]);
    folder.strobe(&["run", "dir.toml"]).refused(&["dir.toml", "directory"]);
    folder.strobe(&["run", "latin.toml"]).refused(&["latin.toml", "UTF-8"]);
    let replay = |drive: &str| folder.strobe(&["replay", "t", "--format", "msr", "--drive", drive]);
    replay("missing.toml").refused(&["missing.toml", "No such file"]);
    replay("dir.toml").refused(&["dir.toml", "directory"]);
    replay("generic8g").refused(&["--drive", "did you mean generic-8g?"]);
    folder.write("wrong.toml", "[nand]\nchanels = 1\n");
    replay("wrong.toml").refused(&["wrong.toml", "did you mean drive.nand.channels?"]);
}

#[test]
fn syntax_errors_carry_file_and_line() {
    let folder = Folder::new();
    for (text, expected) in [
        ("seed = 1\nseed = 2\n", &["line 2", "duplicate key"][..]),
        ("seed = 1\n[run\n", &["line 2"]),
        ("[run]\n[run]\n", &["line 2"]),
        ("seed = 1\n\nx\n", &["line 3"]),
        ("seed = 0x\n", &["line 1"]),
        ("seed = \0\n", &["line 1"]),
        ("seed = 99999999999999999999\n", &["line 1"]),
        ("seed = 1\rrun = 2\n", &["line 1", "carriage return"]),
    ] {
        folder.write("bad.toml", text);
        folder.strobe(&["run", "bad.toml"]).refused(&[&["bad.toml"], expected].concat());
    }
}

#[test]
fn malformed_sets_are_refused() {
    let folder = Folder::new();
    for set in ["drive.nand", "=3", ".=3", "drive..x=3", "", "=", "drive.=3", ".seed=3"] {
        folder.tiny(&[set]).refused(&["--set", "KEY.PATH=VALUE"]);
    }
    for (set, expected) in [
        ("seed.x=3", "seed is not a table"),
        ("drive.nand.channels=", "drive.nand.channels"),
        ("drive.nand.channels.x=3", "drive.nand.channels"),
        ("séed=3", "séed"),
        ("drive.nand.\u{202e}=3", "drive.nand."),
        ("seed=1\nrun.check=true", "seed"),
        ("run.measure=😀", "run.measure"),
    ] {
        folder.tiny(&[set]).refused(&[expected]);
    }
}

#[test]
fn a_target_for_json_that_is_no_file_is_refused_before_the_run() {
    let folder = Folder::new();
    for target in [".", "", "no/such/folder/x.json", "tiny.toml/", "tiny.toml/x.json"] {
        let endless = ["--set", "run.measure=\"1000000x\""];
        folder.strobe(&[&["run", "tiny.toml", "--json", target], &endless[..]].concat()).refused(&["--json"]);
    }
}

#[test]
fn unusual_but_correct_files_are_read() {
    let folder = Folder::new();
    let crlf = TINY.replace('\n', "\r\n");
    let reference = folder.strobe(&["check", "tiny.toml"]).ok().out;
    for (text, name) in [
        (format!("\u{feff}{TINY}"), "byte order mark"),
        (crlf, "CRLF"),
        (format!("{TINY}# é 😀"), "no line end"),
    ] {
        folder.write("odd.toml", text);
        assert_eq!(folder.strobe(&["check", "odd.toml"]).ok().out, reference, "{name}");
    }
    folder.write("least.toml", "seed = 1");
    assert!(folder.strobe(&["check", "least.toml"]).ok().out.contains("generic-8g"), "defaults for the rest");
}
