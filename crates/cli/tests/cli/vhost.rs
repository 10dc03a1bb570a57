//! `strobe serve --vhost`: a real QEMU guest, and refused input.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::Folder;
use super::serve::Running;

/// 512 MiB.
const DRIVE: &str = "\
[nand]
channels = 2
dies_per_channel = 2
blocks_per_plane = 300
pages_per_block = 128
program_ns = 40000
read_ns = 6000
[ftl]
logical_pages = 131072
";

const GUEST: &str = r#"
set -e
drive=/dev/vda
echo queues: $(ls /sys/block/vda/mq | wc -l)
fio --name=v --filename=$drive --rw=randwrite --bsrange=512-128k --iodepth=16 --ioengine=io_uring --direct=1 --size=16m \
    --numjobs=2 --offset_increment=16m --verify=crc32c --minimal > /dev/null && echo verified
blkdiscard $drive && cmp -n 1048576 $drive /dev/zero && echo discarded
dd if=/bin/busybox of=$drive bs=64k count=8 conv=fsync 2> /dev/null
# Not the one of busybox, which has no zeros.
/bin/blkdiscard -z -o 4096 -l 131072 $drive
dd if=$drive bs=4096 skip=1 count=32 2> /dev/null | cmp -n 131072 - /dev/zero && cmp -n 4096 $drive /bin/busybox && echo zeroed
mkfs.ext4 -q -F $drive
mount -t ext4 -o discard $drive /mnt; cp /bin/busybox /mnt/a; umount /mnt; echo written
"#;
const NEXT: &str = "mount -t ext4 /dev/vda /mnt && cmp /bin/busybox /mnt/a && echo found";

#[test]
fn virtual_machines_work_on_the_drive_one_after_the_other() {
    if !crate::has_qemu_host() {
        return;
    }
    let folder = Folder::new();
    folder.write("ssd.toml", DRIVE);
    folder.write("guest.sh", GUEST);
    folder.write("next.sh", NEXT);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/qemu_host.py");
    let boot =
        |file: &str| format!("python3 '{}' \"$vhost\" \"$(cat {file})\" --timeout 500 >&2", script.display());
    let run = format!("{} && {}", boot("guest.sh"), boot("next.sh"));
    let args =
        ["serve", "--drive", "ssd.toml", "--vhost", "v.sock", "--pace", "none", "--run", &run, "--json", "-"];
    let ended = folder.strobe(&args).ok();
    for line in ["queues: 2", "verified", "discarded", "zeroed", "written", "found"] {
        assert!(ended.err.lines().any(|found| found == line), "{line}: {}", ended.err);
    }
    let result = ended.json();
    let requests = &result["requests"];
    assert_eq!(requests["failed"], 0, "{requests}");
    for kind in ["read", "write", "flush", "discard", "write_zeroes"] {
        assert!(requests[kind].as_u64() > Some(0), "{kind}: {requests}");
    }
}

#[test]
fn nonsense_ends_a_connection_and_nothing_else() {
    let folder = Folder::new();
    folder.write("ssd.toml", DRIVE);
    let mut child = folder
        .command(&["serve", "--drive", "ssd.toml", "--vhost", "v.sock"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("an address");
    assert!(line.contains("share=on") && line.contains("v.sock,reconnect=1"), "{line}");
    let connect = || UnixStream::connect(folder.path().join("v.sock")).expect("it listens");
    let ask = |client: &mut UnixStream, request: u32| {
        let message = [request, 1, 0].map(u32::to_le_bytes).concat();
        client.write_all(&message).expect("it hears");
        let mut answer = [0; 20];
        client
            .read_exact(&mut answer)
            .map(|()| u64::from_le_bytes(answer[12..].try_into().expect("eight bytes")))
    };
    let version_1 = 1 << 32;
    for nonsense in
        [&[0xff; 64][..], &[99, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 1, 0, 0, 0, 0, 9, 0, 0]]
    {
        let mut client = connect();
        assert!(ask(&mut client, 1).expect("features") & version_1 != 0);
        client.write_all(nonsense).expect("it hears");
        let ended = client.read(&mut [0; 1]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
    assert_eq!(ask(&mut connect(), 17).expect("the number of queues"), 64);
    let stopped = folder.strobe(&["ctl", "v.sock", "stop"]).ok();
    assert_eq!(stopped.json()["stops"], true);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// Without a write cache, a completed write is durable.
const THROUGH_KILLS: &str = r#"
set -e
echo 'write through' > /sys/block/vda/cache_type
fio --name=v --filename=/dev/vda --rw=randwrite --bs=4k --iodepth=8 --ioengine=io_uring --direct=1 --size=24m \
    --numjobs=2 --offset_increment=24m --verify=crc32c --verify_state_save=0 --minimal > /dev/null && echo verified
cat /sys/block/vda/cache_type
"#;

#[test]
fn a_guest_goes_on_when_the_server_is_killed_and_started_again() {
    if !crate::has_qemu_host() {
        return;
    }
    let folder = Folder::new();
    folder.write("ssd.toml", DRIVE);
    let args = [
        "serve", "--drive", "ssd.toml", "--vhost", "v.sock", "--pace", "none", "--image", "ssd.img",
        "--quiet",
    ];
    let start = || Running(folder.command(&args).spawn().expect("the program starts"));
    let writes = || {
        let stats = folder.strobe(&["ctl", "v.sock", "stats"]);
        (stats.code == 0).then(|| stats.json()["requests"]["write"].as_u64().expect("a count"))
    };
    let wait_for = |count: u64| {
        let is_there = |_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            writes() >= Some(count)
        };
        assert!((0..12_000).any(is_there), "{count} writes");
    };
    let mut server = start();
    wait_for(0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/qemu_host.py");
    let mut guest = std::process::Command::new("python3");
    guest.arg(script).args(["v.sock", THROUGH_KILLS, "--timeout", "500"]).current_dir(folder.path());
    let guest = guest.stdout(std::process::Stdio::piped()).spawn().expect("python3");
    for _ in 0..4 {
        wait_for(1000);
        server.kill();
        server = start();
    }
    let ended = guest.wait_with_output().expect("it ends");
    let out = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && out.contains("verified"), "{out}");
    assert!(out.contains("write through"), "{out}");
    assert!(writes() > Some(0), "the last server has served it, too");
    server.kill();
    assert_eq!(folder.strobe(&["fsck", "ssd.img"]).code, 0);
}
