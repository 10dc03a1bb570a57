#!/usr/bin/env python3
"""Boots a distribution's kernel in QEMU, without root and without KVM, connects it to the drive, and runs a shell script
there. This program prints the script's output and returns its exit code.

    qemu_host.py PORT [SCRIPT]      over NVMe/TCP at a port of this machine: /dev/nvme0n1
    qemu_host.py SOCKET [SCRIPT]    over vhost-user: /dev/vda with a queue for each of two processors; reconnects to a
                                    restarted server

The kernel and its modules come from the distribution's package, which is downloaded and unpacked below ~/.cache/strobe, not
installed. Programs of this machine (busybox, nvme, fio, mkfs.ext4, mkfs.f2fs, blkdiscard) are copied into the guest. Needs
qemu-system-x86_64, cpio, depmod and, once, apt-get.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

KERNEL_PACKAGE = "linux-image-amd64"
MODULES = ["virtio_pci", "virtio_net", "virtio_blk", "nvme-tcp", "crc32c_generic", "crc32_generic", "ext4", "f2fs"]
PROGRAMS = ["nvme", "fio", "mkfs.ext4", "mkfs.f2fs", "blkdiscard"]
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /mnt /run /etc
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/shm; mount -t tmpfs none /dev/shm; mount -t tmpfs none /tmp
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
while read name; do insmod /modules/$name.ko || echo "no $name"; done < /modules/order
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
echo "@begin"
( @connect@ || exit 90
  for try in 1 2 3 4 5 6 7 8 9 10; do [ -b @drive@ ] && break; sleep 1; done
  [ -b @drive@ ] || { echo "no @drive@"; exit 91; }
  sh /script ) 2>&1
echo "@end $?"
@disconnect@
poweroff -f
"""


def fail(text):
    sys.exit(f"qemu_host.py: {text}")


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def kernel_package():
    """Returns the match of the package of the current kernel version, or None."""
    known = subprocess.run(["apt-cache", "depends", KERNEL_PACKAGE], stdout=subprocess.PIPE, text=True, check=False)
    return re.search(r"Depends: (linux-image-\S+)", known.stdout)


def kernel():
    """Returns the kernel and the folder of its modules; downloads them if missing."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "strobe", "nvme-host")
    depends = kernel_package()
    if not depends:
        # The package lists may never have been fetched.
        subprocess.run(["apt-get", "-q", "update"], stdout=subprocess.DEVNULL, check=False)
        depends = kernel_package()
    if not depends:
        fail(f"the distribution has no package {KERNEL_PACKAGE}: only Debian's kernel is known here")
    name = depends[1]
    root = os.path.join(cache, name)
    if not os.path.isdir(root):
        os.makedirs(cache, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            try:
                run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name, cwd=folder)
            except subprocess.CalledProcessError:
                run("apt-get", "-q", "update")
                run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name, cwd=folder)
            (archive,) = (file for file in os.listdir(folder) if file.endswith(".deb"))
            run("dpkg-deb", "-x", os.path.join(folder, archive), os.path.join(folder, "root"))
            os.rename(os.path.join(folder, "root"), root)
    version = name.removeprefix("linux-image-")
    return os.path.join(root, "boot", f"vmlinuz-{version}"), os.path.join(root, "lib", "modules", version)


def copy(path, root):
    """Copies a file to its own path below `root`."""
    to = root + path
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if not os.path.exists(to):
        shutil.copy(os.path.realpath(path), to)


def in_order(modules):
    """Returns the files of the modules, dependencies first. A built-in module has no file."""
    subprocess.run(["depmod", "-b", os.path.join(modules, "..", "..", ".."), os.path.basename(modules)], check=True)
    needs = {}
    with open(os.path.join(modules, "modules.dep")) as file:
        for line in file:
            path, _, others = line.partition(":")
            needs[path] = others.split()
    paths = {os.path.basename(path).split(".ko")[0].replace("-", "_"): path for path in needs}
    order = []
    for name in MODULES:
        if path := paths.get(name.replace("-", "_")):
            order += [other for other in [*reversed(needs[path]), path] if other not in order]
    return [os.path.join(modules, path) for path in order]


def initramfs(modules, script, init, archive):
    """Packs the guest's files into `archive`."""
    with tempfile.TemporaryDirectory() as root:
        for folder in ("bin", "modules", "sbin"):
            os.makedirs(os.path.join(root, folder))
        busybox = shutil.which("busybox") or fail("busybox is missing: apt-get install busybox-static")
        shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
        for name in PROGRAMS:
            path = shutil.which(name) or fail(f"{name} is missing")
            shutil.copy(os.path.realpath(path), os.path.join(root, "bin", name))
            for library in re.findall(r"(/\S+)", run("ldd", path)):
                copy(library, root)
        order = []
        for path in in_order(modules):
            name = os.path.basename(path).split(".ko")[0]
            with open(os.path.join(root, "modules", name + ".ko"), "wb") as out:
                unpack = ["xz", "-dc"] if path.endswith(".xz") else ["cat"]
                subprocess.run([*unpack, path], check=True, stdout=out)
            order.append(name)
        with open(os.path.join(root, "modules", "order"), "w") as out:
            out.write("".join(name + "\n" for name in order))
        for name, text in (("init", init), ("script", script)):
            with open(os.path.join(root, name), "w") as out:
                out.write(text)
            os.chmod(os.path.join(root, name), 0o755)
        with open(archive, "wb") as out:
            names = subprocess.run(["find", ".", "-mindepth", "1"], cwd=root, check=True, stdout=subprocess.PIPE).stdout
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True)


def boot(command, timeout, is_verbose):
    """Runs QEMU, shows the script's output as it comes, and returns the script's exit code."""
    qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    late = threading.Timer(timeout, qemu.kill)
    late.start()
    before, is_in_script = [], False
    try:
        for line in qemu.stdout:
            line = line.decode(errors="replace").replace("\r", "")
            ended = re.search(r"@end (\d+)", line)
            if ended:
                print(line[: ended.start()], end="")
                qemu.stdout.read()
                return int(ended[1])
            if is_in_script or is_verbose:
                print(line, end="", flush=True)
            else:
                before.append(line)
            is_in_script |= "@begin" in line
    finally:
        was_late = not late.is_alive()
        late.cancel()
        qemu.kill()
        qemu.wait()
    if not is_in_script:
        print("".join(before), end="")
    where = "in the script" if is_in_script else "before the script"
    return fail(f"the guest did not end within {timeout} s" if was_late else f"the guest ended {where}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("at", metavar="PORT|SOCKET", help="NVMe/TCP port, or path of a vhost-user socket")
    parser.add_argument("script", nargs="?", default="cat /proc/partitions")
    parser.add_argument("--nqn", default="nqn.2014-08.org.nvmexpress:uuid:57b0be00-0000-4000-8000-000000000001")
    parser.add_argument("--options", default="", help="further options of nvme connect, for example -g -G for digests")
    parser.add_argument("--timeout", type=int, default=300, help="seconds")
    parser.add_argument("--verbose", action="store_true", help="show the kernel's messages")
    args = parser.parse_args()
    if not args.at.isdigit() and not os.path.exists(args.at):
        fail(f"{args.at}: no such socket; strobe serve --vhost {args.at} creates it")
    # mkfs and depmod are in these folders, which the PATH of ordinary users may lack.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    vmlinuz, modules = kernel()
    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, "initramfs")
        connect = f"nvme connect -t tcp -a 10.0.2.2 -s {args.at} -n {args.nqn} {args.options}"
        words, devices = (connect, "/dev/nvme0n1", "nvme disconnect-all"), ["-m", "1024"]
        if not args.at.isdigit():
            words, devices = ("true", "/dev/vda", ""), [
                "-m", "1024", "-smp", "2", "-object", "memory-backend-memfd,id=memory,size=1024M,share=on",
                "-machine", "memory-backend=memory", "-chardev", f"socket,id=strobe,path={args.at},reconnect=1",
                "-device", "vhost-user-blk-pci,chardev=strobe,num-queues=2",
            ]
        init = INIT
        for name, word in zip(("@connect@", "@drive@", "@disconnect@"), words):
            init = init.replace(name, word)
        initramfs(modules, args.script, init, archive)
        command = [
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", *devices, "-nographic", "-no-reboot", "-kernel", vmlinuz,
            "-initrd", archive, "-append", "console=ttyS0 panic=-1 mitigations=off no_timer_check" + ("" if args.verbose else " quiet"),
            "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n",
        ]
        sys.exit(boot(command, args.timeout, args.verbose))


main()
