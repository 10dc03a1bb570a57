use crate::{Ended, Folder, TINY};

#[track_caller]
fn about_victim(victim: &str) -> String {
    let folder = Folder::new();
    folder.write("v.toml", format!("{TINY}[drive.ftl.gc]\nvictim = '{victim}'\n"));
    let ended = folder.strobe(&["check", "v.toml"]);
    ended.refused(&["v.toml: drive.ftl.gc.victim"]);
    ended.err.trim_end().to_owned()
}

const VARIABLES: &str = "variables are u, valid, invalid, units, age, age_closed, age_last_invalid, \
    age_first_invalid, age_newest_valid, age_invalid_sum, stream, erase_count; `strobe list policies` explains them";

#[test]
fn a_wrong_formula_is_answered_with_the_reason_the_place_and_the_variables() {
    let start = "strobe: v.toml: drive.ftl.gc.victim: ";
    for (victim, reason) in [
        ("Age", "unknown variable Age; did you mean age? (character 1 of \"Age\"); "),
        ("2u", "an operator is missing; to multiply, write 2 * u (character 2 of \"2u\"); "),
        ("u-agee", "unknown variable agee; did you mean age? (character 3 of \"u-agee\"); "),
        ("age *", "an operand is missing at the end (character 6 of \"age *\"); "),
        ("1 + 2", "it uses no variable, so all blocks get the same value; "),
    ] {
        assert_eq!(about_victim(victim), format!("{start}{reason}{VARIABLES}"));
    }
    let long = format!("{}agee{}", "u + ".repeat(110), " + u".repeat(110));
    let said = about_victim(&long);
    let place = "(character 441 of \"...u + u + u + u + u + u + agee + u + u + u + u + u...\")";
    assert_eq!(said, format!("{start}unknown variable agee; did you mean age? {place}; {VARIABLES}"));
}

#[test]
fn a_wrong_placement_is_answered_with_its_own_names_and_variables() {
    let about = |scheme: &str| {
        let folder = Folder::new();
        folder.write("v.toml", format!("{TINY}[drive.ftl.placement]\nscheme = '{scheme}'\n"));
        let ended = folder.strobe(&["check", "v.toml"]);
        ended.refused(&["v.toml: drive.ftl.placement.scheme"]);
        ended.err.trim_end().to_owned()
    };
    let variables = "variables are age, interval, writes, copies, stream, is_copy, address, handle, is_metadata; \
        `strobe list placements` explains them";
    let said = about("wirtes / 2");
    let place = "(character 1 of \"wirtes / 2\")";
    assert!(
        said.ends_with(&format!("unknown variable wirtes; did you mean writes? {place}; {variables}")),
        "{said}"
    );
    let said = about("1 + 2");
    assert!(
        said.ends_with(&format!("it uses no variable, so all units get the same value; {variables}")),
        "{said}"
    );
    let said = about("sepbitt");
    assert!(
        said.contains("\"sepbitt\" is not known; did you mean sepbit?; known are none, sep-gc, "),
        "{said}"
    );
}

#[test]
fn none_is_said_not_to_be_the_no_separation_of_papers_wherever_it_is_offered() {
    let folder = Folder::new();
    let list = folder.strobe(&["list", "placements"]).ok().out;
    assert!(list.contains("SepGC; NoSep with") && list.contains("gc.stream = \"host\""), "{list}");
    let schema = folder.strobe(&["schema", "drive", "--markdown"]).ok().out;
    assert!(schema.contains("drive.ftl.gc.stream = \"host\" it does not (NoSep)"), "{schema}");
}

#[test]
fn an_unknown_function_is_answered_with_the_functions() {
    let list = "functions are sqrt, abs, exp, log, min, max; `strobe list policies` explains them";
    let said = about_victim("u + Sqrt(age)");
    let place = "(character 5 of \"u + Sqrt(age)\")";
    assert!(said.ends_with(&format!("unknown function Sqrt; did you mean sqrt? {place}; {list}")), "{said}");
    let said = about_victim("sinus(u)");
    assert!(
        said.ends_with(&format!("unknown function sinus (character 1 of \"sinus(u)\"); {list}")),
        "{said}"
    );
}

#[test]
fn an_empty_policy_is_empty_and_nobodys_slip() {
    for victim in ["", "  "] {
        let said = about_victim(victim);
        assert!(!said.contains("did you mean"), "{said}");
        assert!(said.contains("victim: it is empty; it must be one of the policies greedy, "), "{said}");
    }
    Folder::new().strobe(&["replay", "t", "--format", ""]).refused(&["known are fio, "]);
}

#[test]
fn a_slip_in_the_name_of_a_policy_is_still_one() {
    for (victim, meant) in [("Greedy", "greedy"), ("cost-benifit", "cost-benefit"), ("fif0", "fifo")] {
        let said = about_victim(victim);
        assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
    }
    assert!(about_victim("quantum").contains("known are greedy, "));
}

#[track_caller]
fn starts(ended: &Ended, start: &str) {
    ended.refused(&[]);
    assert!(ended.err.starts_with(&format!("strobe: {start}")), "\"{start}\" does not start: {}", ended.err);
}

#[test]
fn what_an_option_gave_is_not_blamed_on_the_file() {
    let folder = Folder::new();
    for set in
        ["foo=1", "workload.queue_depth=0", "workload.iodepth=0", "drive.ftl.gc.victim=Age", "seed.x=1"]
    {
        starts(&folder.tiny(&[set]), &format!("--set {set}: "));
        starts(&folder.strobe(&["check", "tiny.toml", "--set", set]), &format!("--set {set}: "));
    }
    starts(&folder.tiny(&["nonsense"]), "--set nonsense: expected KEY.PATH=VALUE");
    folder.write("bad.toml", format!("{TINY}mesure = 3\n"));
    let bad = folder.strobe(&["run", "bad.toml", "--set", "seed=2", "--seed", "3", "--check"]);
    starts(&bad, "bad.toml: unknown key run.mesure; did you mean run.measure?");
    let formula = format!("drive.ftl.gc.victim={}agee", "u + ".repeat(200));
    folder.tiny(&[&formula]).refused(&["...: drive.ftl.gc.victim: unknown variable agee; did you mean age?"]);
}

#[test]
fn other_options_are_called_by_their_names() {
    let folder = Folder::new();
    folder.write("t", "1,h,0,Write,0,4096,1\n");
    let durable = ["--set", "drive.ftl.durable_map=true", "--set", "drive.nand.data=stamp"];
    let cut =
        |sets: &[&str]| folder.strobe(&[&["run", "tiny.toml", "--cut", "9", "--cut", "5"], sets].concat());
    starts(&cut(&durable), "--cut 9 --cut 5: power.cut_at = [9, 5]: must be operations in ascending order");
    starts(&cut(&[]), "--cut 9 --cut 5: drive.ftl.durable_map = false: must be true");
    starts(
        &folder.replay("t", "msr", &["--queue-depth", "0"]),
        "--queue-depth 0: workload.queue_depth = 0: ",
    );
    starts(&folder.replay("t", "msr", &["--repeat", "0"]), "--repeat 0: workload.repeat = 0: ");
    starts(&folder.replay("t", "mqsim", &["--time-unit-ns", "0"]), "--time-unit-ns 0: workload.time_unit_ns");
    starts(
        &folder.replay("t", "msrr", &[]),
        "--format \"msrr\": workload.format = \"msrr\" is not known; did",
    );
    let late = folder.replay("t", "msr", &["--late", "isue"]);
    starts(&late, "--late \"isue\": workload.late = \"isue\" is not known; did you mean issue?");
    let both = folder.replay("t", "msr", &["--queue-depth", "2", "--set", "workload.queue_depth=0"]);
    starts(&both, "--set workload.queue_depth=0: must be a whole number");
    folder.write("flat.toml", "run = 3\n");
    starts(&folder.strobe(&["run", "flat.toml", "--check"]), "--check: run is not a table");
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let folder = Folder::new();
    folder.write("marked.toml", format!("\u{feff}{TINY}"));
    let plain = folder.strobe(&["check", "tiny.toml"]).ok();
    assert_eq!(folder.strobe(&["check", "marked.toml"]).ok().out, plain.out);
    folder.write("drive.toml", format!("\u{feff}{}", folder.read("drive.toml")));
    folder.write("t", "\u{feff}1,h,0,Write,0,4096,1\n");
    assert_eq!(folder.replay("t", "msr", &[]).ok().json()["host"]["write"]["commands"], 1);
    folder.write("t.gz", crate::traces::gzip(folder.read("t").as_bytes()));
    assert_eq!(folder.replay("t.gz", "msr", &[]).ok().json()["host"]["write"]["commands"], 1);
}

#[test]
fn a_header_is_called_one() {
    let folder = Folder::new();
    folder.write("t", "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n1,h,0,Write,0,4096,1\n");
    let skipped = &folder.replay("t", "msr", &[]).ok().json()["trace"]["skipped"];
    assert_eq!(skipped["header lines"], 1);
    folder.write("t", "When,Where,Offset,DiskNumber,Type,Size,ResponseTime\n1,h,0,Write,0,4096,1\n");
    folder
        .replay("t", "msr", &[])
        .refused(&["trace t, line 1: ", "looks like a header, but not of the columns"]);
}

#[test]
fn a_trace_without_requests_is_answered_for_its_format() {
    let folder = Folder::new();
    folder.write("f", "fio version 3 iolog\n0 f add\n0 f open\n");
    let fio = folder.replay("f", "fio", &[]);
    fio.refused(&[
        "no requests to replay; left out: 2 file events; the log names files, but has no read, write",
    ]);
    assert!(!fio.err.contains("blkparse") && !fio.err.contains("--action"), "{}", fio.err);
    folder.write("b", "8,0 0 1 0.5 99 D W 0 + 8 [x]\n8,0 0 1 0.6 0 C W 0 + 8 [0]\n");
    folder.replay("b", "blkparse", &["--action", "Q"]).refused(&[
        "left out: 1 completed requests (C), 1 dispatched requests (D); try --action D or --action C",
    ]);
    folder.write("b", "8,0 0 1 0.5 99 G W 0 + 8 [x]\n");
    let others = folder.replay("b", "blkparse", &[]);
    others.refused(&["left out: 1 other actions"]);
    assert!(!others.err.contains("--action"), "{}", others.err);
}

#[test]
fn a_split_request_is_told() {
    let folder = Folder::new();
    let gib = 1u64 << 30;
    folder.write("t", format!("1,h,0,Read,0,{},1\n2,h,0,Read,0,{gib},1\n", gib + 4096));
    let args = ["replay", "t", "--format", "msr", "--reproducible"];
    let said = folder.strobe(&args).ok();
    assert!(said.out.contains("CHANGED: 1 longer than 1 GiB, split"), "{}", said.out);
    let result = folder.strobe(&[&args[..], &["--json", "-"]].concat()).ok().json();
    assert_eq!(result["trace"]["changes"]["split"], 1);
    assert_eq!(result["trace"]["requests"]["read"], 3);
    let schema = folder.strobe(&["schema", "result"]).ok().json();
    assert!(schema["$defs"]["Changes"]["properties"]["split"].is_object());
}

#[test]
fn the_note_on_garbage_says_what_would_bring_some() {
    let folder = Folder::new();
    let notes = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        let said = folder.strobe(&[&["run", "tiny.toml", "--full"], &sets[..]].concat()).ok().out;
        // Notes are wrapped to the width of the terminal.
        let notes = said.split("\n\n").filter(|part| part.starts_with("note: "));
        notes.map(|note| note.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
    };
    let filled = notes(&["run.warmup=0", "run.measure=1"]);
    assert!(filled.contains("the drive was filled") && filled.contains("run.precondition"), "{filled}");
    assert!(!filled.contains("prefill"), "{filled}");
    let empty = notes(&["run.warmup=0", "run.measure=1", "run.prefill=false"]);
    assert!(empty.contains("the drive was never full (run.prefill, --prefill"), "{empty}");
    // Not every programmed page triggers a collection.
    let short = (0..8).map(|more| notes(&[&format!("run.warmup={}", 1280 + more), "run.measure=1"]));
    let short = short.max().expect("eight");
    assert!(short.contains("within the measured window") && short.contains("run.measure"), "{short}");
    let trims = ["workload.write_fraction=0", "workload.trim_fraction=0.5", "workload.size_bytes=4096"];
    let trimmed = notes(&[&trims[..], &["run.warmup=100"]].concat());
    assert!(trimmed.contains("no read found data on flash") && trimmed.contains("trimmed"), "{trimmed}");
    assert!(!trimmed.contains("prefill"), "{trimmed}");
    assert_eq!(notes(&[]), "", "nothing to note");
}

#[test]
fn of_an_endless_line_only_the_wrong_place_is_shown() {
    let folder = Folder::new();
    folder.write("long.toml", format!("x = [{}?{}]\n", "1, ".repeat(60_000), " 2,".repeat(60_000)));
    let ended = folder.strobe(&["check", "long.toml"]);
    starts(&ended, "long.toml: not valid TOML: ");
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines[1], "line 1, column 180006");
    let mark = lines[4].find('^').expect("a mark");
    assert_eq!(&lines[3][mark..=mark], "?", "{}", ended.err);
    assert!(ended.err.lines().all(|line| line.len() < 120), "{}", ended.err);
}

#[test]
fn zipf_with_theta_zero_is_uniform() {
    let folder = Folder::new();
    let count = |sets: &[&str]| folder.tiny(sets).ok().json()["nand"].clone();
    assert_eq!(count(&["workload.kind=zipf", "workload.theta=0"]), count(&["workload.kind=uniform"]));
    folder
        .tiny(&["workload.kind=zipf", "workload.theta=-1"])
        .refused(&["workload.theta=-1", "from 0 to 100"]);
}

#[test]
fn an_image_that_was_written_into_between_its_regions_is_damaged() {
    let folder = Folder::new();
    let run = ["run", "tiny.toml", "--quiet", "--image", "a.img", "--set", "run.measure=1"];
    folder.strobe(&run).ok();
    let path = folder.path().join("a.img");
    let mut image = std::fs::read(&path).expect("an image");
    // Last byte before the block table, after the configuration.
    assert_eq!(image[8191], 0);
    image[8191] = 1;
    std::fs::write(&path, image).expect("a writable folder");
    let checked = folder.strobe(&["fsck", "a.img"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    checked.says(&["a.img is damaged in 1 place"]);
    for part in ["byte 8191 of the file lies between its regions and is not zero", "no data is lost"] {
        assert!(checked.out.contains(part), "{checked:?}");
    }
    folder.strobe(&run).refused(&["image a.img: it is damaged: byte 8191"]);
}
