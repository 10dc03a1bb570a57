#!/usr/bin/env python3
"""Tests of measure-drive.py: it recognises drives in use. Run by the tests of the command line."""
import importlib.util
import os
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("measure_drive", os.path.join(HERE, "measure-drive.py"))
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


class InUse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sys, self.proc = f"{folder.name}/sys", f"{folder.name}/proc"
        self.put("proc/mounts", "proc /proc proc rw 0 0\n/dev/zz1 / ext4 rw 0 0\n")
        self.put("proc/swaps", "Filename Type Size Used Priority\n/dev/zz2 partition 1 0 -2\n/swap\\040file file 1 0 -3\n")
        self.put("sys/class/block/zz/size", "1")

    def put(self, path, text):
        path = os.path.join(os.path.dirname(self.sys), path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def uses(self, name):
        return script.uses_of_device(name, self.sys, self.proc)

    def test_an_unused_drive_is_free(self):
        self.assertEqual(self.uses("zz"), [])
        # Devices with the same prefix in their names.
        self.put("proc/mounts", "/dev/zza / ext4 rw 0 0\n/dev/zz10 /home ext4 rw 0 0\nzz /mnt nfs rw 0 0\n")
        self.assertEqual(self.uses("zz"), [])
        self.assertEqual(self.uses("zz1"), [])

    def test_a_mounted_device_is_used(self):
        self.assertEqual(self.uses("zz1"), ["zz1 is mounted"])
        self.assertEqual(self.uses("zz2"), ["zz2 is swap"])

    def test_a_drive_is_used_as_its_partitions_are(self):
        self.put("sys/class/block/zz/zz1/partition", "1")
        self.put("sys/class/block/zz/zz2/partition", "2")
        # Other folders below the device are not partitions.
        self.put("sys/class/block/zz/queue/rotational", "0")
        self.assertEqual(self.uses("zz"), ["zz1 is mounted", "zz2 is swap", "it has partitions: zz1, zz2"])

    def test_members_of_lvm_and_md_are_used(self):
        self.put("sys/class/block/zz/holders/dm-3/dm/name", "")
        self.put("sys/class/block/dm-3/dm/name", "vg-home\n")
        self.assertEqual(self.uses("zz"), ["zz is part of dm-3 (vg-home)"])
        self.put("sys/class/block/zz/zz7/partition", "7")
        self.put("sys/class/block/zz7/holders/md0/x", "")
        self.assertEqual(self.uses("zz")[1:], ["zz7 is part of md0", "it has partitions: zz7"])

    def test_read_only_ones_are_named(self):
        self.put("sys/class/block/zz/ro", "1\n")
        self.assertEqual(self.uses("zz"), ["it is read-only"])

    def test_files_are_used_as_swap_and_behind_loop_devices(self):
        uses = lambda path: script.uses_of_file(path, self.sys, self.proc)
        self.assertEqual(uses("/swap file"), ["it is swap"])
        self.assertEqual(uses("/other"), [])
        self.put("sys/class/block/loop4/loop/backing_file", "/other\n")
        self.assertEqual(uses("/other"), ["it is behind loop4"])


if __name__ == "__main__":
    unittest.main()
