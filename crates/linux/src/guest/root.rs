//! The guest's root when it is the host's: read only, with a layer in memory above it.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_move};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketType, sendto, socket};
use rustix::process::{chdir, chroot};

use crate::host::TAG;
use crate::job::Job;

/// Mount points in the root that the kernel unpacks.
const LOWER: &str = "/below";
const MEMORY: &str = "/layer";
const ROOT: &str = "/root";

/// Makes the host's files the root. Returns the folder of the layer that has what is written over them.
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
    // A root by `chroot` alone may create no user namespace.
    chdir(ROOT)?;
    mount_move(".", "/")?;
    chroot(".")?;
    chdir("/")?;
    Ok(layer)
}

/// Creates the other folders and links that programs expect.
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
    // Not in every kernel.
    let _ = loopback();
    Ok(())
}

/// Switches on the loopback device, by which servers and their clients on one machine talk.
fn loopback() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST: u16 = 1;
    const UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    // The header: length, type, flags, sequence number, port.
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    // Family and type, then the device (the first), its flags, and which of them to change.
    message.extend([0; 4]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // No protocol: that of routes and devices.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    sendto(socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    Ok(())
}
