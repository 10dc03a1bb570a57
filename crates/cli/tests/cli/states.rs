use crate::{Folder, TINY};

fn run(folder: &Folder, args: &[&str]) -> String {
    let fixed = ["run", "exp.toml", "--quiet", "--reproducible", "--json", "-"];
    folder.strobe(&[&fixed[..], args].concat()).ok().out
}

fn experiments() -> Vec<(&'static str, String)> {
    let page = TINY.to_owned();
    let set = |text: &str, with: &str| text.replacen("seed = 1\n", &format!("seed = 1\n{with}"), 1);
    let drive = TINY.split("[workload]").next().expect("a drive");
    vec![
        ("a generator", page.clone()),
        ("counting", page.replace("warmup", "timing = false\nwarmup")),
        (
            "a generator that trims, flushes and remembers",
            page.replace(
                "\"uniform\"",
                "\"sequential\"\ntrim_fraction = 0.1\nflush_every = 7\nqueue_depth = 6",
            ),
        ),
        ("nothing but preconditioning", page.replace("warmup = \"2x\"", "precondition = \"3x\"")),
        ("rounds until it is steady", page.replace("warmup = \"2x\"", "until_steady = \"waf\"")),
        (
            "jobs",
            format!(
                "{drive}[[jobs]]\nname = \"a\"\nkind = \"uniform\"\nrate_iops = 2000\nrate_process = \"poisson\"\n\
                 [[jobs]]\nname = \"b\"\nkind = \"gaussian\"\nwrite_fraction = 0.5\nqueue_depth = 5\nthinktime = \"1ms\"\n\
                 [run]\nwarmup = \"1s\"\nmeasure = \"500ms\"\n"
            ),
        ),
        (
            "jobs after preconditioning, over time",
            format!(
                "{drive}[[jobs]]\nname = \"a\"\nkind = \"zipf\"\nqueue_depth = 3\n\
                 [run]\nprecondition = \"1x\"\nmeasure = \"500ms\"\ninterval = \"50ms\"\n"
            ),
        ),
        (
            "caches",
            set(
                &page,
                "[drive.controller]\nwrite_buffer_bytes = 32768\n[drive.controller.nvram]\nbytes = 16384\n",
            ),
        ),
    ]
}

#[test]
fn a_run_from_a_state_gives_the_bytes_of_the_run_that_saved_it() {
    for (name, text) in experiments() {
        let folder = Folder::new();
        folder.write("exp.toml", &text);
        let plain = run(&folder, &[]);
        assert_eq!(run(&folder, &["--save-state", "warm"]), plain, "{name}: saving changed the run");
        assert_eq!(run(&folder, &["--from-state", "warm"]), plain, "{name}: the fork went on otherwise");
        // A run from the state saves the same state.
        assert_eq!(run(&folder, &["--from-state", "warm", "--save-state", "end", "--save-at", "end"]), plain);
        let longer = ["--set", "run.measure=6x"];
        let [forked, whole] =
            [&["--from-state", "warm"][..], &[]].map(|from| run(&folder, &[&longer, from].concat()));
        assert_eq!(forked, whole, "{name}: a longer measurement");
    }
}

#[test]
fn runs_from_a_warm_state_have_the_series_of_their_measurement() {
    for (name, text) in experiments() {
        if name == "counting" {
            continue;
        }
        let folder = Folder::new();
        let text = if text.contains("interval") {
            text
        } else {
            text.replace("[run]", "[run]\ninterval = \"20ms\"")
        };
        folder.write("exp.toml", &text);
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        let mut plain = json(&run(&folder, &[]));
        assert_eq!(json(&run(&folder, &["--save-state", "warm"])), plain, "{name}");
        // Equal to a run without a state, except for the rows of the warm-up.
        let mut forked = json(&run(&folder, &["--from-state", "warm"]));
        let rows = |result: &mut serde_json::Value| {
            let rows = result["intervals"].take();
            let measured = |row: &&serde_json::Value| row["measured"] == true;
            rows.as_array().expect("rows").iter().filter(measured).cloned().collect::<Vec<_>>()
        };
        let (ours, theirs) = (rows(&mut forked), rows(&mut plain));
        assert!(ours.len() > 3 && ours.len() == theirs.len(), "{name}: {} {}", ours.len(), theirs.len());
        assert_eq!(forked, plain, "{name}");
        assert_eq!(ours, theirs, "{name}");
        let other = ["--from-state", "warm", "--set", "run.interval=33ms"];
        assert_ne!(run(&folder, &other), "", "{name}");
    }
}

#[test]
fn what_the_warm_up_does_not_depend_on_may_differ_and_nothing_else() {
    let folder = Folder::new();
    folder.write("exp.toml", TINY.replace("warmup = \"2x\"", "precondition = \"3x\""));
    run(&folder, &["--save-state", "cold"]);
    let other = ["--set", "workload.kind=zipf", "--set", "workload.rate_iops=500", "--set", "run.warmup=1x"];
    let [forked, whole] =
        [&["--from-state", "cold"][..], &[]].map(|from| run(&folder, &[&other, from].concat()));
    assert_eq!(forked, whole);

    folder.write("exp.toml", TINY);
    run(&folder, &["--save-state", "warm"]);
    for (set, key) in [
        ("seed=2", "seed is 1 in the state, but 2 was requested"),
        ("workload.kind=zipf", "workload.kind is \"uniform\" in the state, but \"zipf\" was requested"),
        ("run.warmup=3x", "run.warmup is \"2x\" in the state, but \"3x\" was requested"),
        ("drive.ftl.gc.victim=fifo", "drive.ftl.gc.victim"),
        ("run.timing=false", "run.timing"),
    ] {
        folder.strobe(&["run", "exp.toml", "--set", set, "--from-state", "warm"]).refused(&["warm: ", key]);
    }
}

#[test]
fn a_drive_that_has_been_used_takes_any_workload_and_seed() {
    let folder = Folder::new();
    folder.write("exp.toml", TINY);
    run(&folder, &["--save-state", "used", "--save-at", "end"]);
    let other =
        ["--from-state", "used", "--seed", "9", "--set", "workload.kind=zipf", "--set", "run.warmup=0"];
    let once = run(&folder, &other);
    assert_eq!(run(&folder, &other), once);
    let result: serde_json::Value = serde_json::from_str(&once).expect("JSON");
    assert_eq!((&result["seed"], &result["from_state"]["seed"]), (&9.into(), &1.into()));
    folder
        .strobe(&["run", "exp.toml", "--from-state", "used", "--set", "drive.ftl.gc.victim=fifo"])
        .refused(&["drive.ftl.gc.victim is \"greedy\" in the state, but \"fifo\" was requested"]);
}

#[test]
fn files_that_are_no_states_and_requests_that_make_no_sense_are_refused() {
    let folder = Folder::new();
    folder.write("exp.toml", TINY).write("text", "seed = 1");
    run(&folder, &["--save-state", "warm"]);
    let whole = std::fs::read(folder.path().join("warm")).expect("a state");
    folder.write("cut", &whole[..whole.len() / 2]);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 4;
    folder.write("damaged", &damaged);
    let mut version = whole;
    version[8] = 6;
    folder.write("version", &version);
    for (file, parts) in [
        ("none", &["none: ", "No such file"][..]),
        ("text", &["not a Strobe state file", "--save-state"]),
        ("cut", &["damaged at byte", "ends"]),
        ("damaged", &["damaged at byte", "checksum"]),
        ("version", &["format 6", "save it again"]),
    ] {
        folder.strobe(&["run", "exp.toml", "--from-state", file]).refused(parts);
    }
    let refused = |args: &[&str], parts: &[&str]| {
        folder.strobe(&[&["run", "exp.toml"], args].concat()).refused(parts);
    };
    refused(&["--save-state", "exp.toml"], &["--save-state", "input"]);
    refused(&["--from-state", "warm", "--save-state", "warm"], &["--save-state", "input"]);
    refused(&["--save-state", "s", "--save-at", "start"], &["--save-at", "warm-up"]);
    refused(&["--save-at", "end"], &["--save-state"]);
    refused(&["--save-state", "s", "--image", "i"], &["--image"]);
    let cut = [
        "--cut",
        "50",
        "--set",
        "drive.ftl.durable_map=true",
        "--set",
        "drive.nand.data=stamp",
        "--save-state",
        "s",
    ];
    refused(&cut, &["--save-state", "power"]);
    assert!(!folder.path().join("s").exists());
}

#[test]
fn a_run_that_ends_before_its_state_leaves_what_was_there() {
    let folder = Folder::new();
    folder.write("exp.toml", TINY).write("state", "precious");
    let wear = ["--set", "drive.nand.endurance_pe=2", "--set", "run.warmup=50x", "--save-state", "state"];
    let ended = folder.strobe(&[&["run", "exp.toml", "--quiet"], &wear[..]].concat());
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("no state was saved"), "{ended:?}");
    assert_eq!(folder.read("state"), "precious");
}
