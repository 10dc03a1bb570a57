//! Details of a finding of `strobe crash`: file, offset, bytes, line of source, and the missing sync.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::crash::crash;
use super::{kernel, text};

/// Writes a C program and its check into `folder`, and compiles it with debug information.
fn program(folder: &Path, source: &str, check: &str) {
    fs::write(folder.join("save.c"), source).expect("written");
    fs::write(folder.join("check.sh"), check).expect("written");
    let status = Command::new("cc").args(["-g", "-o", "save", "save.c"]).current_dir(folder).status();
    assert!(status.expect("cc").success());
}

/// Replaces a file by renaming another over it; `SYNC` is defined or not.
const RENAMES: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void put(int number)
{
	char text[64];
	int length = snprintf(text, sizeof text, "setting %d\n", number);
	int file = open("config.new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (write(file, text, length) != length) /* line 11 */
		_exit(1);
	close(file);
	rename("config.new", "config"); /* line 14 */
}

int main(void)
{
	for (int number = 1; number <= 20; number++) {
		put(number);
		printf("saved %d\n", number);
		fflush(stdout);
		sleep(1);
	}
}
"#;

fn report(stdout: &[u8], stderr: &[u8]) -> Value {
    serde_json::from_slice(stdout).unwrap_or_else(|error| panic!("{error}: {}", text(stderr)))
}

#[test]
fn data_that_was_not_sent_has_its_call_its_line_and_the_sync_that_it_lacks() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    program(folder.path(), RENAMES, "test -s config || { echo empty; exit 1; }\n");
    let options = ["--mount-opts", "noauto_da_alloc", "--before", "echo 0 > config; sync", "--cuts", "12"];
    let rest = ["--keep", "none", "--find-sync", "--json", "-", "--check", "sh ./check.sh", "--", "./save"];
    let output = crash(&kernel, folder.path(), &[&options[..], &rest].concat());
    let result = report(&output.stdout, &output.stderr);
    let cuts = result["found"].as_array().expect("cuts");
    // After the program, a sync of the guest sends the rest.
    let is_within = |cut: &&Value| cut["verdict"] == "lost" && cut["syncs"] == Value::Array(Vec::new());
    let lost: Vec<&Value> = cuts.iter().filter(is_within).collect();
    assert!(lost.len() > 2, "{result}");
    for cut in &lost {
        let unsent = &cut["unsent"][0];
        assert_eq!((&unsent["path"], &unsent["offset"]), (&"/config".into(), &0.into()), "{cut}");
        let length = unsent["length"].as_u64().expect("a length");
        assert!(["setting 1\n", "setting 10\n"].iter().any(|text| text.len() as u64 == length), "{cut}");
        let source = |call: &Value| {
            let source = &call["source"];
            assert!(source["file"].as_str().is_some_and(|file| file.ends_with("save.c")), "{cut}");
            (source["line"].as_u64(), source["function"].as_str().map(str::to_owned))
        };
        assert_eq!(source(&unsent["call"]), (Some(11), Some("put".to_owned())));
        assert_eq!(unsent["call"]["path"], "/config.new", "the file had this name when it was written");
        assert_eq!(cut["last_call"]["call"], "rename");
        assert_eq!(source(&cut["last_call"]), (Some(14), Some("put".to_owned())));
        let numbers = [&unsent["call"]["number"], &cut["last_call"]["number"]].map(Value::as_u64);
        // Each round creates or truncates, writes and renames.
        assert_eq!(numbers[0].map(|number| number + 1), numbers[1], "{cut}");
    }
    let trials = result["tried_syncs"].as_array().expect("trials");
    assert_eq!((trials.len(), &trials[0]["added"]), (1, &"before each rename".into()));
    assert_eq!((&trials[0]["first_wrong"], trials[0]["cuts"].as_u64() > Some(5)), (&Value::Null, true));
    assert_eq!(result["passes_without_program"], true, "the old settings are there without the program");
}

/// Appends lines of 600 bytes, each a letter, and syncs.
const APPENDS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	char text[600];
	int file = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
	for (int number = 0; number < 60; number++) {
		memset(text, 'a' + number % 26, sizeof text);
		text[599] = '\n';
		write(file, text, sizeof text);
		fsync(file);
		printf("saved %d\n", number);
		fflush(stdout);
	}
}
"#;

const COUNTS: &str = "n=$(wc -l < $STROBE_ACKNOWLEDGED)
m=$(cat log 2>/dev/null | wc -l)
[ $m -ge $n ] || { echo $n acknowledged, $m there; exit 1; }
";

#[test]
fn data_lost_from_the_cache_of_a_lying_drive_has_its_range_and_bytes() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    program(folder.path(), APPENDS, COUNTS);
    let run = |more: &[&str]| {
        let rest =
            ["--cuts", "6", "--keep", "none", "--json", "-", "--check", "sh ./check.sh", "--", "./save"];
        let output = crash(&kernel, folder.path(), &[more, &rest].concat());
        report(&output.stdout, &output.stderr)
    };
    let result = run(&["--lying-flushes"]);
    let cuts = result["found"].as_array().expect("cuts");
    let lost = cuts.iter().find(|cut| cut["verdict"] == "lost").unwrap_or_else(|| panic!("{result}"));
    let writes = lost["unflushed"].as_array().expect("writes");
    let of_log: Vec<&Value> = writes.iter().filter(|write| write["origin"]["path"] == "/log").collect();
    // Bytes from the file's own rule: byte N belongs to line N / 600.
    let mut compared = 0;
    for write in &of_log {
        let Some(expected) = write["difference"]["expected"].as_str() else { continue };
        let offset = write["offset"].as_u64().expect("an offset")
            + write["difference"]["offset"].as_u64().expect("an offset");
        for (index, digits) in expected.as_bytes().chunks(2).enumerate() {
            let at = offset + index as u64;
            let letter = if at % 600 == 599 { b'\n' } else { b'a' + (at / 600 % 26) as u8 };
            // Behind the end of the file at that time a page has zeros.
            let byte = u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("digits");
            assert!(byte == letter || byte == 0, "{at}: {byte:02x} in {write}");
            compared += u64::from(byte == letter);
        }
    }
    assert!(compared >= 64, "{lost}");
    let sectors: u64 = of_log.iter().filter_map(|write| write["lost"].as_u64()).sum();
    assert!(sectors > 8, "{lost}");
    let facts = lost["facts"].as_array().expect("facts");
    let has = |label: &str, part: &str| {
        facts.iter().any(|fact| {
            fact["label"] == label && fact["text"].as_str().is_some_and(|text| text.contains(part))
        })
    };
    assert!(
        has("in cache", "/log (inode ") && has("written", "|  /log") && has("found", "|  /log"),
        "{facts:?}"
    );
    assert_eq!(result["passes_without_program"], false);
    // No sync helps on a drive that does not flush.
    let both = crash(&kernel, folder.path(), &["--lying-flushes", "--find-sync", "--", "./save"]);
    assert!(text(&both.stderr).contains("cannot be used with"), "{}", text(&both.stderr));

    // An honest drive loses nothing that was complete before a flush.
    let honest = run(&[]);
    assert!(honest["groups"].as_array().is_some_and(Vec::is_empty), "{honest}");
    assert!(honest.get("tried_syncs").is_none());
}

/// Types the first block of a how-to in a folder; returns the exit code and standard output.
pub(crate) fn typed(page: &str, folder: &Path, kernel: &Path) -> (Option<i32>, String) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to").join(page);
    let page = fs::read_to_string(page).expect("the page");
    let script = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    fs::create_dir(folder.join("bin")).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_strobe"), folder.join("bin/strobe")).expect("a link");
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder).env("PATH", path).env("STROBE_KERNEL", kernel);
    let output = command.output().expect("a shell");
    (output.status.code(), text(&output.stdout))
}

#[test]
fn the_page_for_ci_finds_a_missing_sync_and_its_fix_is_clean() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (code, said) = typed("crash-ci.md", folder.path(), &kernel);
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "lost: key 1 is gone",
        "not sent    /table, ",
        "store.c:21 in checkpoint",
        "if all files are synced after each write, all",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let junit = fs::read_to_string(folder.path().join("crash.xml")).expect("JUnit");
    assert_eq!(junit.matches("<testcase ").count(), 40, "{junit}");
    let sarif = fs::read_to_string(folder.path().join("crash.sarif")).expect("SARIF");
    let sarif: Value = serde_json::from_str(&sarif).expect("JSON");
    let at = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!((&at["artifactLocation"]["uri"], &at["region"]["startLine"]), (&"store.c".into(), &21.into()));

    // With the sync, all is fine; a second run has nothing new to cut, and finds the bug when it is back.
    let source = fs::read_to_string(folder.path().join("store.c")).expect("a program");
    let fixed = source.replace("if (ftruncate(", "if (fsync(table) != 0 || ftruncate(");
    assert_ne!(fixed, source);
    let options =
        ["--seen", "seen.json", "--keep", "none", "--json", "-", "--check", "sh ./check.sh", "--", "./store"];
    let run = |source: &str| {
        fs::write(folder.path().join("store.c"), source).expect("written");
        let status =
            Command::new("cc").args(["-g", "-o", "store", "store.c"]).current_dir(folder.path()).status();
        assert!(status.expect("cc").success());
        let output = crash(&kernel, folder.path(), &options);
        let result = report(&output.stdout, &output.stderr);
        (output.status.code(), result["found"].as_array().map_or(0, Vec::len))
    };
    let (code, cuts) = run(&fixed);
    assert!(code == Some(0) && cuts > 30, "{code:?} {cuts}");
    let (code, fewer) = run(&fixed);
    // Ten cuts are made anyway, and a few kinds were beyond the 100 cuts of the first run.
    assert!(code == Some(0) && (10..cuts / 2).contains(&fewer), "{code:?} {fewer} of {cuts}");
    let (code, _) = run(&source);
    assert_eq!(code, Some(1), "the missing sync makes other places");

    // A file that is not from here is refused, and stays.
    fs::write(folder.path().join("seen.json"), "{\"mine\": 1}").expect("written");
    let refused = crash(&kernel, folder.path(), &options);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("--seen seen.json: not written by --seen"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(fs::read_to_string(folder.path().join("seen.json")).expect("the file"), "{\"mine\": 1}");
}

#[test]
fn a_budget_makes_rounds_of_cuts_and_distinct_places_differ() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    program(folder.path(), APPENDS, COUNTS);
    let run = |more: &[&str]| {
        let rest = ["--keep", "none", "--json", "-", "--check", "sh ./check.sh", "--", "./save"];
        let output = crash(&kernel, folder.path(), &[more, &rest].concat());
        report(&output.stdout, &output.stderr)["found"].as_array().expect("cuts").clone()
    };
    // One second ends within the first round; with enough time the rounds end with --cuts.
    let few = run(&["--budget", "1s"]);
    assert!((1..=20).contains(&few.len()), "{}", few.len());
    let all = run(&["--budget", "10m", "--cuts", "50"]);
    let mut operations: Vec<_> = all.iter().map(|cut| cut["operation"].as_u64()).collect();
    assert!(operations.len() == 50 && operations.is_sorted(), "{operations:?}");
    operations.dedup();
    assert_eq!(operations.len(), all.len(), "no operation is cut twice");
    // Distinct places have more kinds than as many spread ones.
    let kinds = |cuts: &[Value]| {
        let kinds: std::collections::BTreeSet<_> = cuts.iter().map(|cut| cut["kind"].to_string()).collect();
        kinds.len()
    };
    let (distinct, spread) = (run(&["--places", "distinct", "--cuts", "20"]), run(&["--cuts", "20"]));
    assert_eq!((distinct.len(), spread.len()), (20, 20));
    assert!(kinds(&distinct) > 10 && kinds(&distinct) > kinds(&spread), "{distinct:?}");
}

/// Overwrites 16 KiB in place and syncs, with a letter a round.
const OVERWRITES: &str = r#"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char page[16384];

int main(void)
{
	int file = open("table", O_RDWR | O_CREAT, 0644);
	for (int round = 0; round < 20; round++) {
		memset(page, 'a' + round, sizeof page);
		pwrite(file, page, sizeof page, 0);
		fsync(file);
	}
}
"#;

#[test]
fn a_page_is_torn_on_drives_that_keep_less_whole() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let check = "test -e table || exit 0\ntest \"$(fold -w 1 < table | sort -u | wc -l)\" -le 1 || { echo torn; exit 1; }\n";
    program(folder.path(), OVERWRITES, check);
    let rest = ["--cuts", "16", "--drives", "4k,16k", "--check", "sh ./check.sh", "--", "./save"];
    let output = crash(&kernel, folder.path(), &[&["--json", "-", "--keep", "none"][..], &rest].concat());
    let result = report(&output.stdout, &output.stderr);
    let reports = result["reports"].as_array().expect("reports");
    let kinds: Vec<_> =
        reports.iter().map(|report| (report["drive_kind"].clone(), report["whole_bytes"].clone())).collect();
    assert_eq!(kinds, [("4k".into(), 4096.into()), ("16k".into(), 16_384.into())]);
    assert_eq!(reports[0]["groups"][0]["reason"], "torn", "{result}");
    assert_eq!(reports[1]["groups"], serde_json::json!([]), "{result}");
    // Part of the page is there, and the rest is of the round before.
    let cuts = reports[0]["found"].as_array().expect("cuts");
    let torn = cuts.iter().find(|cut| cut["verdict"] == "lost").expect("a torn page");
    let writes = torn["unflushed"].as_array().expect("writes");
    let page =
        writes.iter().find(|write| write["origin"]["path"] == "/table").unwrap_or_else(|| panic!("{torn}"));
    let [kept, lost] = ["kept", "lost"].map(|key| page[key].as_u64().expect("sectors"));
    assert!(kept > 0 && lost > 0 && kept + lost == 32, "{page}");
    let byte = |key: &str| {
        let digits = page["difference"][key].as_str().expect("digits")[..2].to_owned();
        u8::from_str_radix(&digits, 16).expect("digits")
    };
    assert_eq!(byte("expected"), byte("found") + 1, "{page}");

    // The command of the summary repeats the cut on that drive, and opens it.
    let told = crash(&kernel, folder.path(), &[&["--keep", "kept"][..], &rest].concat());
    let told = text(&told.stdout);
    for part in
        ["on ext4, drive 4k: ", "The drive keeps 4096 aligned bytes", " --drives=4k ", "kept/ext4-4k-"]
    {
        assert!(told.contains(part), "{part} in {told}");
    }
    let opens = told.lines().find(|line| line.starts_with("  strobe linux ")).expect("a command");
    assert!(opens.contains(" --set=drive.ftl.mapping_unit_bytes=4096 "), "{opens}");
}
