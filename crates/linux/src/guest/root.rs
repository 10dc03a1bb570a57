//! Root of a guest with the host's files: read only, below an overlay in memory.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_move};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketType, sendto, socket};
use rustix::process::{chdir, chroot};

use crate::host::TAG;
use crate::job::Job;

const LOWER: &str = "/below";
const MEMORY: &str = "/layer";
const ROOT: &str = "/root";

pub(super) fn enter() -> io::Result<fs::File> {
    for folder in [LOWER, MEMORY, ROOT] {
        fs::create_dir_all(folder)?;
    }
    mount(TAG, LOWER, "virtiofs", MountFlags::RDONLY, None)?;
    mount("tmpfs", MEMORY, "tmpfs", MountFlags::empty(), None)?;
    fs::create_dir(format!("{MEMORY}/upper"))?;
    fs::create_dir(format!("{MEMORY}/work"))?;
    mount(
        "overlay",
        ROOT,
        "overlay",
        MountFlags::empty(),
        Some(c"lowerdir=/below,upperdir=/layer/upper,workdir=/layer/work"),
    )?;
    let layer = fs::File::open(format!("{MEMORY}/upper"))?;
    // The kernel refuses user namespaces after a mere `chroot`, so the overlay is first moved to `/`.
    chdir(ROOT)?;
    mount_move(".", "/")?;
    chroot(".")?;
    chdir("/")?;
    Ok(layer)
}

pub(super) fn complete(job: &Job) -> io::Result<()> {
    if job.shows_host {
        fs::create_dir_all("/dev/pts")?;
        mount("devpts", "/dev/pts", "devpts", MountFlags::empty(), Some(c"ptmxmode=666"))?;
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/{target}"), format!("/dev/{name}"))?;
    }
    for (path, target) in &job.links {
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder)?;
        }
        if fs::symlink_metadata(path).is_ok() {
            fs::remove_file(path)?;
        }
        std::os::unix::fs::symlink(target, path)?;
    }
    // Not every kernel has a network.
    let _ = loopback();
    Ok(())
}

/// Local servers and clients need the loopback device.
fn loopback() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST: u16 = 1;
    const UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    // Header (nlmsghdr): length, type, flags, sequence number, port.
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    // Body (ifinfomsg): family and type, index of the first device, its flags, and the mask of flags to
    // change.
    message.extend([0; 4]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // Protocol 0 is NETLINK_ROUTE, for routes and devices.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    sendto(socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    Ok(())
}
