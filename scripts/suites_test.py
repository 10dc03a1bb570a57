#!/usr/bin/env python3
"""Tests of suites.py. Run by the tests of the command line."""
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("suites", os.path.join(HERE, "suites.py"))
suites = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(suites)
Found = suites.Found

XFSTESTS = """FSTYP         -- ext4
PLATFORM      -- Linux/x86_64 strobe 6.12.117-strobe

generic/001 4s ...  5s
generic/003        0s
generic/026        [not run] ACLs not supported by this filesystem type: ext4
generic/042       - output mismatch (see /tmp/results/generic/042.out.bad)
    --- tests/generic/042.out
    +++ /tmp/results/generic/042.out.bad
    @@ -1,2 +1,3 @@
     QA output created by 042
    +mount: /mnt/042.mnt: mount failed
    +more
generic/050       [failed, exit status 1]- output mismatch (see x)
generic/051        9s
_check_dmesg: something found in dmesg (see /tmp/results/generic/051.dmesg)
generic/052"""
BLKTESTS = """block/003 => nvme0n1 (run various discard sizes)
block/003 => nvme0n1 (run various discard sizes)             [passed]
    runtime  ...  1.204s
block/039 (test race)                                        [failed]
    runtime  ...  0.1s
    --- tests/block/039.out
    +++ /tmp/results/nodev/block/039.out.bad
    @@ -1,2 +1,3 @@
     Running block/039
    +mkdir: cannot create directory
nvme/003 (tr=loop) (test if we're sending keep-alives)       [not run]
    driver nvme-loop is not available
    second reason
nvme/053 => nvme0n1 (rescan)"""


class Parsers(unittest.TestCase):
    def test_each_test_of_xfstests_has_a_state_and_a_reason(self):
        found = suites.parse_xfstests(XFSTESTS)
        self.assertEqual(found["generic/001"], Found("pass"))
        self.assertEqual(found["generic/003"], Found("pass"))
        self.assertEqual(found["generic/026"], Found("not run", "ACLs not supported by this filesystem type: ext4"))
        self.assertEqual(found["generic/042"], Found("fail", "output mismatch: +mount: /mnt/042.mnt: mount failed"))
        self.assertEqual(found["generic/050"].state, "fail")
        self.assertEqual(found["generic/051"].state, "fail")
        self.assertEqual(found["generic/052"].state, "not finished")

    def test_the_summary_of_xfstests_counts_where_lines_are_torn(self):
        found = suites.parse_xfstests("generic/001 \nFailures: generic/001\nNot run: generic/002\n")
        self.assertEqual([found[name].state for name in sorted(found)], ["fail", "not run"])

    def test_each_test_of_blktests_has_a_state_and_a_reason(self):
        found = suites.parse_blktests(BLKTESTS)
        self.assertEqual(found["block/003"], Found("pass"))
        self.assertEqual(found["block/039"], Found("fail", "+mkdir: cannot create directory"))
        self.assertEqual(found["nvme/003"], Found("not run", "driver nvme-loop is not available"))
        self.assertEqual(found["nvme/053"].state, "not finished")


class Runs(unittest.TestCase):
    def test_what_is_no_checkout_is_refused_with_what_it_lacks(self):
        with tempfile.TemporaryDirectory() as folder:
            for suite, said in [("xfstests", "is no checkout of xfstests: it has no check"), ("blktests", "no check")]:
                script = os.path.join(HERE, f"{suite}.sh")
                ended = subprocess.run(["sh", script, folder], capture_output=True, text=True, check=False)
                self.assertEqual(ended.returncode, 1)
                self.assertIn(said, ended.stderr)
            for name in ["common/rc", "tests/generic/001", "check"]:
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("_begin_fstest auto quick\n")
            self.assertEqual(suites.quick_tests(folder), ["generic/001"])
            self.assertEqual(suites.named_tests(folder, ["001", "generic/001"]), ["generic/001"] * 2)
            for find, name in [(suites.named_tests, "002"), (suites.blk_tests, "blok")]:
                with self.assertRaisesRegex(SystemExit, f"has no test .*{name}"):
                    find(folder, [name])
            with self.assertRaisesRegex(SystemExit, "is not built, it has no program ltp/fsstress: run make there"):
                suites.check_checkout("xfstests", folder)

    def test_a_test_without_end_is_noted_and_the_next_ones_go_on(self):
        class Fake(suites.Guests):
            boots = []

            def boot(self, tests):
                self.boots.append(tests)
                if "generic/028" in tests:
                    return "generic/001  1s\ngeneric/028 ", "no end"
                return f"generic/029  1s\ngeneric/030  [failed]\n{suites.AGAIN}\ngeneric/030  1s", None

        options = type("Options", (), {"suite": "xfstests", "batch": 4, "wall": 1})
        found, memory = {}, {}
        Fake(options, "ext4").run([f"generic/0{number}" for number in ("01", "28", "29", "30")], found, memory)
        self.assertEqual(Fake.boots[1], ["generic/029", "generic/030"])
        self.assertEqual(found["generic/028"], Found("not finished", "no end"))
        self.assertEqual((found["generic/029"].state, memory), ("pass", {"generic/030": "pass"}))
        said = suites.table({"ext4": (found, memory)})
        self.assertIn("| ext4 | 4 | 2 | 1 | 0 | 1 |", said)
        self.assertIn("| ext4 | generic/028 | no end | not tried |", said)
        self.assertIn("| ext4 | generic/030 | [failed] | pass |", said)

    def test_a_run_that_is_stopped_prints_what_it_has(self):
        class Fake(suites.Guests):
            def boot(self, tests):
                if tests == ["generic/002"]:
                    raise KeyboardInterrupt
                return f"{tests[0]}  1s", None

        arguments = ["xfstests", ".", "--kernel", "K", "--fs", "xfs,ext4", "--batch", "1", "generic/001", "generic/002"]
        said = io.StringIO()
        with unittest.mock.patch.multiple(
            suites, Guests=Fake, check_checkout=lambda *_: None, named_tests=lambda _, names: names
        ):
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()) as errors:
                self.assertEqual(suites.main(arguments), 130)
        self.assertIn("| xfs | 1 | 1 | 0 | 0 | 0 |", said.getvalue())
        self.assertIn("stopped in xfs", errors.getvalue())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
