use super::{has, kernel, strobe, text};
use serde_json::Value;

/// Unmodified fio reads the time stamp counter.
#[test]
fn fio_in_the_guest_and_the_model_agree() {
    let Some(kernel) = kernel() else { return };
    if !has("fio") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("result.json");
    // The guest adds a microsecond or two per request.
    for (direction, block) in [("randread", "--bs=4k"), ("randwrite", "--bs=64k")] {
        let rw = format!("--rw={direction}");
        let before =
            "dd if=/dev/zero of=a bs=1M count=32 conv=fsync 2>/dev/null; echo 3 > /proc/sys/vm/drop_caches";
        let arguments = [
            "-q",
            "--json",
            json.to_str().expect("text"),
            // The model has no processor.
            "--syscall-ns",
            "0",
            "--before",
            before,
            "--",
            "fio",
            "--name=a",
            "--filename=a",
            &rw,
            block,
            "--size=32m",
            "--io_size=12m",
            "--direct=1",
            "--ioengine=psync",
            "--output-format=json",
            "--fallocate=none",
            "--overwrite=1",
        ];
        let output = strobe(&kernel, &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let again = strobe(&kernel, &arguments);
        assert!(output.stdout == again.stdout, "{}{}", text(&output.stdout), text(&again.stdout));
        // fio may print text before its JSON.
        let printed = text(&output.stdout);
        let fio: Value =
            serde_json::from_str(&printed[printed.find('{').expect("JSON")..]).expect("JSON of fio");
        let model: Value =
            serde_json::from_slice(&std::fs::read(&json).expect("a result")).expect("JSON of strobe");
        let op = &direction[4..];
        let (seen, told) = (&fio["jobs"][0][op], &model["jobs"][0][op]);
        let number = |value: &Value| value.as_f64().expect("a number");
        let (latency, model_latency) = (number(&seen["clat_ns"]["mean"]), number(&told["clat_ns"]["mean"]));
        let (iops, model_iops) = (number(&seen["iops"]), 1e9 / model_latency);
        eprintln!(
            "{op}: fio {iops:.0} IOPS, {latency:.0} ns; model {model_iops:.0} IOPS, {model_latency:.0} ns"
        );
        assert!((latency / model_latency - 1.0).abs() < 0.03, "{op}: {latency} against {model_latency} ns");
        assert!((iops / model_iops - 1.0).abs() < 0.03, "{op}: {iops} against {model_iops} IOPS");
    }
}

/// At depth 16 more dies serve reads of 4 KiB in parallel than at depth 1.
#[test]
fn io_uring_and_libaio_reach_the_drive_with_all_their_requests() {
    let Some(kernel) = kernel() else { return };
    if !has("fio") {
        return;
    }
    let iops = |engine: &str, depth: &str| {
        let (engine, depth) = (format!("--ioengine={engine}"), format!("--iodepth={depth}"));
        let arguments = [
            "-q",
            "--",
            "fio",
            "--name=a",
            "--filename=a",
            "--rw=randread",
            "--bs=4k",
            "--size=16m",
            "--number_ios=2000",
            "--direct=1",
            &engine,
            &depth,
            "--output-format=json",
        ];
        let output = strobe(&kernel, &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        let fio: Value =
            serde_json::from_str(&printed[printed.find('{').expect("JSON")..]).expect("JSON of fio");
        fio["jobs"][0]["read"]["iops"].as_f64().expect("a number")
    };
    for engine in ["io_uring", "libaio"] {
        let (one, many) = (iops(engine, "1"), iops(engine, "16"));
        eprintln!("{engine}: {one:.0} and {many:.0} IOPS");
        assert!(many > 3.0 * one, "{engine}: {one} and {many}");
    }
}
