use super::{has, kernel, result};

const JOB: &str = "strobe files postmark --directory pm --set files=60 --set transactions=300 --buffered; \
                   dd if=/dev/urandom of=random bs=64k count=8 conv=fsync 2>/dev/null; cksum random; sync; rm -r pm; sync";

fn same(file_system: &str, mkfs: &str, options: &str, times: usize) {
    let Some(kernel) = kernel() else { return };
    if !has(mkfs) {
        return;
    }
    let arguments = ["--fs", file_system, "--mount-opts", options, "--fsck", "--", "sh", "-c", JOB];
    let (value, first) = result(&kernel, &arguments);
    assert!(value["host"]["write"]["commands"].as_u64() > Some(10), "{value}");
    for time in 1..times {
        let (_, again) = result(&kernel, &arguments);
        assert!(first == again, "{file_system}: run {time} differs");
    }
    let (_, other) = result(&kernel, &[&["--seed", "2"], &arguments[..]].concat());
    assert!(first != other, "{file_system}: the seed changes nothing");
}

#[test]
fn ext4_is_the_same_every_time() {
    same("ext4", "mkfs.ext4", "discard", 3);
}

#[test]
fn f2fs_is_the_same_every_time() {
    same("f2fs", "mkfs.f2fs", "mode=lfs", 3);
}

#[test]
fn vfat_is_the_same_every_time() {
    same("vfat", "mkfs.vfat", "sync", 3);
}

#[test]
fn exfat_is_the_same_every_time() {
    same("exfat", "mkfs.exfat", "discard", 2);
}

/// More is written than the dirty limit, which depends on the memory size to the page. The host's address
/// randomisation must not affect it.
#[test]
fn memory_and_what_is_written_back_for_want_of_it_are_the_same_every_time() {
    let Some(kernel) = kernel() else { return };
    let job = "head -2 /proc/meminfo >&2; strobe files ageing --buffered --directory age --seed 1 --set files=400 \
               --set file_bytes=700000 --set update_bytes=50000000";
    let arguments = ["--fs", "ext4", "--mount-opts", "discard", "--", "sh", "-ec", job];
    let (_, first) = result(&kernel, &arguments);
    let said = String::from_utf8_lossy(&first);
    assert!(said.contains("MemTotal") && said.contains("MemFree"), "{said}");
    for time in 1..4 {
        let (_, again) = result(&kernel, &arguments);
        assert!(first == again, "run {time} differs: {said} {}", String::from_utf8_lossy(&again));
    }
}

/// The guest's first process is strobe itself: another build has another size, which must not affect
/// writeback. Eight megabytes of ballast must not either.
#[test]
fn what_else_is_in_memory_does_not_decide_what_is_written_back() {
    let Some(kernel) = kernel() else { return };
    let job = "strobe files ageing --buffered --directory age --seed 1 --set files=400 --set file_bytes=700000 \
               --set update_bytes=50000000; cat /proc/sys/vm/dirty_background_bytes /proc/sys/vm/dirty_bytes >&2";
    let count = |of: &serde_json::Value| of.as_f64().expect("counted");
    let run = |ballast: &str| {
        let job = format!("{ballast}{job}");
        let arguments = ["--fs", "ext4", "--", "sh", "-ec", &job];
        let (value, said) = result(&kernel, &arguments);
        (count(&value["requests"]["write"]), count(&value["nand"]["program"]["total"]), said)
    };
    let (writes, programs, said) = run("");
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("53687091\n107374182\n"), "a tenth and a fifth of 512 MiB: {said}");
    let (others, other_programs, _) = run("head -c 8000000 /dev/zero > /tmp/ballast; ");
    // Writes of 1 MiB and more are split at 254 segments, and adjacent pages in memory share a segment: seven
    // of 2261 writes differ. It would be 4 % if the dirty limit were a share of free memory.
    assert!((others / writes - 1.0).abs() < 0.01, "{writes} writes, {others} beside the ballast");
    assert!(
        (other_programs / programs - 1.0).abs() < 0.005,
        "{programs}, {other_programs} beside the ballast"
    );
}

#[test]
#[ignore = "20 runs of each file system"]
fn twenty_of_twenty_runs_are_the_same() {
    same("ext4", "mkfs.ext4", "discard", 20);
    same("f2fs", "mkfs.f2fs", "mode=lfs", 20);
    same("f2fs", "mkfs.f2fs", "mode=adaptive,discard", 20);
    same("vfat", "mkfs.vfat", "sync", 20);
    same("vfat", "mkfs.vfat", "discard", 20);
    same("exfat", "mkfs.exfat", "discard", 20);
}

#[test]
#[ignore = "ten million messages"]
fn a_long_run_ends_well() {
    let Some(kernel) = kernel() else { return };
    let job = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); \
               dd if=/dev/zero of=x bs=4k count=20000 oflag=direct conv=notrunc 2>/dev/null || exit 1; \
               strobe files varmail --directory v --set files=100 --set steps=200 > /dev/null || exit 1; rm -r v; done";
    let (value, _) = result(&kernel, &["--fs", "f2fs", "--fsck", "--", "sh", "-c", job]);
    let messages = value["guest"]["time_messages"].as_u64().expect("counted");
    eprintln!("{messages} time messages, {} of virtual time", value["time"]["session_ns"]);
    assert!(messages >= 10_000_000);
}
