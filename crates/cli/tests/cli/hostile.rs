//! Hostile input: each case once broke the program, or looked as if it could.

use crate::Folder;

#[test]
fn a_set_nested_fifty_thousand_deep_is_refused() {
    let set = format!("{}=1", vec!["a"; 50_000].join("."));
    let ended = Folder::new().tiny(&[&set]);
    assert_eq!(ended.code, 2);
    ended.says(&["--set"]);
}

#[test]
fn nesting_in_files_is_bounded() {
    let folder = Folder::new();
    let dotted = vec!["a"; 200_000].join(".");
    for text in [
        format!("{dotted} = 1\n"),
        format!("[{dotted}]\n"),
        format!("a = {}", "[".repeat(200_000)),
        format!("a = {}{}", "[".repeat(200_000), "]".repeat(200_000)),
        format!("a = {}", "{a = ".repeat(100_000)),
        "[[a]]\n".repeat(100_000),
        format!("{} = 1\n", "a".repeat(1 << 20)),
        format!("seed = \"{}\"\n", "é".repeat(1 << 20)),
    ] {
        folder.write("x.toml", text);
        let ended = folder.strobe(&["check", "x.toml"]);
        ended.refused(&["x.toml"]);
    }
}

#[test]
fn an_endless_file_is_not_read_to_its_end() {
    let folder = Folder::new();
    folder.strobe(&["run", "/dev/zero"]).refused(&["/dev/zero", "longer than"]);
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.toml")).expect("a link");
    let replay = ["replay", "t", "--format", "msr", "--drive", "zero.toml"];
    folder.strobe(&replay).refused(&["zero.toml", "longer than"]);
}

#[test]
fn messages_pass_no_control_characters_on() {
    let folder = Folder::new();
    folder.write("x.toml", "seed = \x1b[31m\n");
    let ended = folder.strobe(&["check", "x.toml"]);
    ended.refused(&["line 1"]);
    assert!(!ended.err.contains('\x1b'), "{:?}", ended.err);
    let ended = folder.tiny(&["\x1b[31mx=3"]);
    assert!(ended.code == 2 && !ended.err.contains('\x1b'), "{:?}", ended.err);
}

#[test]
fn extremes_that_are_allowed_work() {
    let folder = Folder::new();
    for sets in [
        &["workload.queue_depth=65536"][..],
        &["run.measure=0", "run.warmup=0", "run.prefill=false"],
        &["workload.write_fraction=0", "run.prefill=false"],
        &["workload.trim_fraction=1"],
        &["workload.block_bytes=655360"],
        &["workload.block_bytes=512", "workload.queue_depth=1000"],
        &["workload.rate_iops=1"],
        &["workload.rate_iops=1000000000"],
        &["drive.nand.pages_per_block=1", "drive.ftl.logical_pages=10"],
        &["drive.ftl.logical_pages=1"],
        &["drive.ftl.gc.victim=d-choices", "drive.ftl.gc.choices=65536"],
        &[
            "drive.nand.read_ns=0",
            "drive.nand.program_ns=0",
            "drive.nand.erase_ns=0",
            "drive.nand.channel_mb_s=0",
        ],
        &["drive.nand.channel_mb_s=1", "drive.nand.spare_bytes=65536"],
        &[
            "drive.nand.page_bytes=1048576",
            "drive.ftl.mapping_unit_bytes=512",
            "drive.ftl.logical_pages=100000",
        ],
        &["drive.nand.page_bytes=1048576", "drive.ftl.mapping_unit_bytes=1048576"],
        &["drive.controller.write_buffer_bytes=1"],
        &["drive.controller.write_buffer_bytes=\"1g\""],
        &["workload.kind=zipf", "workload.theta=100"],
        &["workload.kind=zipf", "workload.theta=1e-300"],
        &["workload.kind=hotcold", "workload.hot_fraction=1e-300", "workload.hot_write_share=1"],
        &["workload.kind=gaussian", "workload.sigma=1e-300"],
        &["seed=9223372036854775807"],
    ] {
        let sets = [sets, &["run.check=true"]].concat();
        let result = folder.tiny(&sets).ok().json();
        assert_eq!(result["partial"], false, "{sets:?}");
        crate::assert_causes_add_up(&result);
    }
}

#[test]
fn the_summary_copes_with_nothing_to_show() {
    let folder = Folder::new();
    for sets in [
        &["--set", "run.measure=0", "--set", "run.warmup=0", "--set", "run.prefill=false"][..],
        &["--set", "workload.write_fraction=0", "--set", "run.timing=false"],
        &["--set", "drive.nand.program_fail_rate=1.0", "--set", "drive.nand.blocks_per_plane=128"],
    ] {
        let ended = folder.strobe(&[&["run", "tiny.toml"], sets].concat());
        assert!(ended.out.contains("\nWAF  "), "{ended:?}");
        let full = folder.strobe(&[&["run", "tiny.toml", "--full"], sets].concat());
        assert!(full.out.contains("write amplification") && !full.out.contains("NaN"), "{full:?}");
        assert!(!ended.out.contains("NaN") && !ended.out.contains("inf"), "{}", ended.out);
    }
}
