//! fio job files give the same requests in fio and in Strobe.
//!
//! fio logs the requests it issues to a file; the drive logs the commands that reach it. Counts, sizes,
//! touched blocks and the mix of directions are compared, and the order where fio's rules define one.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use crate::{Folder, Json};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Same {
    Order,
    /// Reads in order and writes in order, up to the shorter stream; their mix is random.
    Directions,
    Set,
    /// Number of requests, of each size and of distinct blocks, within random variation.
    Shares,
}

use Same::{Directions, Order, Set, Shares};

/// Lines of a job are separated by blanks. Its file has 2 MiB.
const JOBS: &[(Same, &str)] = &[
    (Order, "rw=write size=1m"),
    (Order, "rw=read size=1m"),
    (Order, "rw=write size=1m bs=8k"),
    (Order, "rw=write size=1m bs=64k iodepth=8 ioengine=libaio"),
    (Order, "rw=read size=512k bs=512"),
    (Order, "rw=write size=1m offset=256k"),
    (Order, "rw=read size=256k offset=1m bs=16k"),
    (Order, "rw=write size=100k bs=16k"),
    (Order, "rw=write size=10k bs=4k"),
    (Order, "rw=write size=512k io_size=1m"),
    (Order, "rw=write size=512k io_size=100k"),
    (Order, "rw=write size=512k io_limit=64k"),
    (Order, "rw=write size=256k loops=3"),
    (Order, "rw=read size=256k loops=2 offset=64k"),
    (Order, "rw=write size=1m bs=48k loops=3"),
    (Order, "rw=write size=256k rwmixread=70"),
    (Order, "rw=write size=256k loops=1 number_ios=5"),
    (Shares, "rw=write bs=4k bssplit=8k/50:16k/50 size=2m"),
    (Shares, "rw=write bsrange=8k-16k bs=4k size=2m"),
    (Order, "rw=write size=1m number_ios=17"),
    (Order, "rw=write size=64k number_ios=100"),
    (Order, "rw=write size=256k fsync=8"),
    (Order, "rw=write size=256k fsync=7"),
    (Order, "rw=write size=256k fsync=1"),
    (Order, "rw=write size=256k fdatasync=16 bs=8k"),
    (Order, "rw=write size=256k end_fsync=1"),
    (Order, "rw=write size=256k fsync=16 end_fsync=1"),
    (Order, "readwrite=write size=256k blocksize=8k"),
    (Order, "rw=write size=256k direct=0 invalidate=1 group_reporting"),
    (Order, "rw=write size=128k norandommap"),
    (Order, "rw=write size=256k startdelay=0"),
    (Directions, "rw=rw size=1m"),
    (Directions, "rw=readwrite size=1m rwmixread=75"),
    (Directions, "rw=rw size=512k rwmixwrite=90 bs=8k"),
    (Directions, "rw=rw size=512k offset=128k io_size=256k"),
    (Set, "rw=randwrite size=1m"),
    (Set, "rw=randread size=1m"),
    (Set, "rw=randwrite size=1m bs=16k"),
    (Set, "rw=randwrite size=1m offset=512k bs=8k"),
    (Set, "rw=randread size=512k bs=512"),
    (Set, "rw=randwrite size=1m iodepth=16 ioengine=libaio"),
    (Set, "rw=randwrite size=512k loops=2"),
    (Set, "rw=randwrite size=512k io_size=1m"),
    (Set, "rw=randwrite size=1m fsync=32"),
    (Set, "rw=randwrite size=256k bs=8k end_fsync=1"),
    (Set, "rw=randwrite size=1m random_distribution=random"),
    (Set, "rw=randwrite size=1m norandommap=0"),
    (Set, "rw=randwrite size=10k"),
    (Set, "rw=randwrite size=100k bs=16k"),
    (Shares, "rw=randwrite size=1000k bs=16k norandommap io_size=2m"),
    (Shares, "rw=randwrite size=1m number_ios=50"),
    (Shares, "rw=randwrite size=1m io_size=512k"),
    (Shares, "rw=randwrite size=1m io_size=1536k"),
    (Shares, "rw=randwrite size=2m norandommap"),
    (Shares, "rw=randread size=2m norandommap=1 io_size=4m"),
    (Shares, "rw=randrw size=2m"),
    (Shares, "rw=randrw size=2m rwmixread=30"),
    (Shares, "rw=randrw size=2m rwmixread=90 norandommap"),
    (Shares, "rw=write size=2m bssplit=4k/50:16k/50"),
    (Shares, "rw=write size=2m bssplit=512/60:4k/30:8k"),
    (Shares, "rw=write size=2m bsrange=4k-16k"),
    (Shares, "rw=read size=2m blocksize_range=512-4k"),
    (Shares, "rw=write size=2m bsrange=4k-14k"),
    (Shares, "rw=randwrite size=2m bssplit=4k/50:16k/50"),
    (Shares, "rw=randwrite size=2m bssplit=4k/70:8k/30 io_size=4m"),
    (Shares, "rw=randwrite size=2m bsrange=4k-16k"),
    (Shares, "rw=randwrite size=2m bssplit=4k/50:16k/50 norandommap"),
    (Shares, "rw=randwrite size=2m random_distribution=zoned:80/20:20/80"),
    (Shares, "rw=randwrite size=2m random_distribution=zoned:60/10:40/90 io_size=4m"),
    (Order, "rw=write size=256k [b] stonewall rw=read size=128k bs=8k"),
    (Order, "rw=write size=128k offset=64k [b] wait_for_previous rw=write size=64k"),
];

/// Direction, first byte and length; a flush has neither.
type Request = (String, u64, u64);

#[test]
fn job_files_issue_what_fio_issues() {
    let Some(fio) = strobe_testing::program("fio", "fio") else { return };
    let folder = Folder::new();
    folder.write("drive.toml", DRIVE);
    let mut wrong = Vec::new();
    for &(same, job) in JOBS {
        let lines = job.replace(" [", "\n[").replace(' ', "\n");
        folder.write("job.fio", format!("[a]\n{lines}\n"));
        folder.write(
            "real.fio",
            format!("[global]\nfilename=data\nfallocate=none\nwrite_iolog=log\n[a]\n{lines}\n"),
        );
        folder.write("data", vec![1; 2 << 20]);
        let _ = std::fs::remove_file(folder.path().join("log"));
        let ended =
            Command::new(&fio).arg("real.fio").current_dir(folder.path()).stdout(Stdio::null()).status();
        assert!(ended.expect("fio starts").success(), "{job}");
        folder.strobe(&["run", "job.fio", "--drive", "drive.toml", "--quiet", "--events", "events"]).ok();
        let (theirs, ours) = (of_fio(&folder.read("log")), of_drive(&folder.read("events")));
        if let Err(why) = compare(same, &theirs, &ours) {
            wrong.push(format!("{job} ({same:?}): {why}"));
        }
    }
    assert!(JOBS.len() >= 60 && wrong.is_empty(), "{} of {}:\n{}", wrong.len(), JOBS.len(), wrong.join("\n"));
}

const DRIVE: &str = "\
[nand]
channels = 1
blocks_per_plane = 64
pages_per_block = 64
page_bytes = 4096
[ftl]
mapping_unit_bytes = 512
over_provisioning = 0.5
";

fn of_fio(log: &str) -> Vec<Request> {
    let request = |line: &str| {
        let mut words = line.split(' ').skip(2);
        let op = words.next()?;
        let op = if op.ends_with("sync") { "flush" } else { op };
        if !["read", "write", "flush"].contains(&op) {
            return None;
        }
        let (offset, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((op.to_owned(), if op == "flush" { 0 } else { offset }, bytes))
    };
    log.lines().filter_map(request).collect()
}

fn of_drive(events: &str) -> Vec<Request> {
    let request = |line: &str| {
        let event: Json = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| event[key].as_u64().expect("a number") * 512;
        let op = event["op"].as_str()?.to_owned();
        let (offset, bytes) = if op == "flush" { (0, 0) } else { (number("lba"), number("sectors")) };
        (event["kind"] == "command_submitted").then_some((op, offset, bytes))
    };
    events.lines().filter(|line| line.contains("command_submitted")).filter_map(request).collect()
}

fn compare(same: Same, theirs: &[Request], ours: &[Request]) -> Result<(), String> {
    let of = |stream: &[Request], op: &str| -> Vec<Request> {
        stream.iter().filter(|request| request.0 == op).cloned().collect()
    };
    let first_difference = |one: &[Request], other: &[Request], what: &str| match one
        .iter()
        .zip(other)
        .position(|(one, other)| one != other)
    {
        Some(at) => Err(format!("{what} {at}: fio {:?}, here {:?}", one[at], other[at])),
        None => Ok(()),
    };
    let close = |what: &str, one: f64, other: f64, deviation: f64| {
        let is_close = (one - other).abs() <= 6.0 * deviation + 1.0;
        if is_close {
            Ok(())
        } else {
            Err(format!("{what}: fio {one}, here {other} (deviation {deviation:.1})"))
        }
    };
    match same {
        Order | Set => {
            let (mut one, mut other) = (theirs.to_vec(), ours.to_vec());
            if same == Set {
                one.sort();
                other.sort();
            }
            first_difference(&one, &other, "request")?;
            close("requests", one.len() as f64, other.len() as f64, -1.0 / 6.0)
        }
        Directions => {
            for op in ["read", "write"] {
                first_difference(&of(theirs, op), &of(ours, op), op)?;
            }
            let deviation = (theirs.len() as f64 / 2.0).sqrt();
            close("reads", of(theirs, "read").len() as f64, of(ours, "read").len() as f64, deviation)?;
            close("requests", theirs.len() as f64, ours.len() as f64, -1.0 / 6.0)
        }
        Shares => {
            let bytes = |stream: &[Request]| stream.iter().map(|request| request.2).sum::<u64>() as f64;
            let largest = theirs.iter().map(|request| request.2).max().unwrap_or(0) as f64;
            close("bytes", bytes(theirs), bytes(ours), largest / 6.0)?;
            let sizes = |stream: &[Request]| {
                let mut sizes: BTreeMap<(String, u64), f64> = BTreeMap::new();
                stream
                    .iter()
                    .for_each(|(op, _, bytes)| *sizes.entry((op.clone(), *bytes)).or_default() += 1.0);
                sizes
            };
            let (one, other) = (sizes(theirs), sizes(ours));
            let one_size = one.len() == 1 && other.len() == 1;
            for key in one.keys().chain(other.keys()) {
                let [one, other] = [&one, &other].map(|sizes| sizes.get(key).copied().unwrap_or(0.0));
                // Difference of two random counts.
                let deviation = if one_size { -1.0 / 6.0 } else { (one + other).sqrt() };
                close(&format!("{key:?}"), one, other, deviation)?;
            }
            let blocks = |stream: &[Request]| {
                let blocks =
                    stream.iter().flat_map(|(_, offset, bytes)| (offset / 512)..(offset + bytes) / 512);
                blocks.collect::<BTreeSet<u64>>().len() as f64
            };
            let (one, other) = (blocks(theirs), blocks(ours));
            close("different sectors", one, other, 0.012 * one)
        }
    }
}
