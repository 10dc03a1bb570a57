//! `strobe serve --nvme`: a real host, and refused input.

use std::path::Path;

use super::Folder;

/// 512 MiB, the minimum for F2FS.
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
copy_mode = \"logical\"
placement = { scheme = \"handles\", handles = 3 }
";

const HOST: &str = r#"
set -e
drive=/dev/nvme0n1
fio --name=v --filename=$drive --rw=randwrite --bsrange=512-128k --iodepth=16 --ioengine=io_uring --direct=1 --size=16m \
    --verify=crc32c --minimal > /dev/null && echo verified
blkdiscard $drive && cmp -n 1048576 $drive /dev/zero && echo discarded
for fs in ext4 f2fs; do
    if [ $fs = ext4 ]; then mkfs.ext4 -q -F $drive; else mkfs.f2fs -q -f $drive; fi
    mount -t $fs -o discard $drive /mnt; cp /bin/busybox /mnt/a; umount /mnt
    mount -t $fs $drive /mnt; cmp /bin/busybox /mnt/a && echo $fs holds the file; umount /mnt
done
dd if=/bin/busybox of=$drive bs=64k count=8 conv=fsync 2> /dev/null
nvme copy $drive --sdlba=10000 --slbs=0 --blocks=1023
dd if=$drive bs=512 skip=10000 count=1024 2> /dev/null | cmp -n 524288 - /bin/busybox && echo copied
nvme smart-log /dev/nvme0 | grep -c host_write_commands
nvme fdp status $drive | grep -c Identifier
nvme reset /dev/nvme0 && sleep 2 && cmp -n 524288 $drive /bin/busybox && echo reset
"#;

#[test]
fn a_distribution_s_kernel_connects_and_works() {
    if !crate::has_qemu_host() {
        return;
    }
    let folder = Folder::new();
    folder.write("ssd.toml", DRIVE);
    folder.write("host.sh", HOST);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/qemu_host.py");
    let run = format!(
        "python3 '{}' $nvme_port \"$(cat host.sh)\" --options='-g -G' --timeout 500 >&2",
        script.display()
    );
    let args =
        ["serve", "--drive", "ssd.toml", "--nvme", "0", "--pace", "none", "--run", &run, "--json", "-"];
    let ended = folder.strobe(&args).ok();
    for line in
        ["verified", "discarded", "ext4 holds the file", "f2fs holds the file", "copied", "3", "reset"]
    {
        assert!(ended.err.lines().any(|found| found == line), "{line}: {}", ended.err);
    }
    let result = ended.json();
    assert_eq!(result["requests"]["copy"], 1, "{result}");
    assert_eq!(result["requests"]["failed"], 0);
    let programs = &result["nand"]["program"]["by_cause"];
    assert_eq!(programs["copy"], 0, "copies program nothing: {programs}");
    assert!(programs["host"].as_u64() > Some(1000), "{programs}");
}

#[test]
fn addresses_and_names_that_cannot_be_are_refused() {
    let folder = Folder::new();
    folder.write("ssd.toml", DRIVE);
    let serve =
        |more: &[&str]| folder.strobe(&[&["serve", "--drive", "ssd.toml", "--run", "true"], more].concat());
    serve(&["--nvme", "0.0.0.0:4420"]).refused(&["loopback addresses only"]);
    serve(&["--nvme", "0", "--nqn", "ssd"]).refused(&["begins with nqn."]);
    serve(&["--nvme", "0", "--nqn", "nqn.2014-08.org.nvmexpress.discovery"])
        .refused(&["not the discovery name"]);
}
