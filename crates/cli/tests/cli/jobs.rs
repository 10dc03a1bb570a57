//! Several jobs on one drive, arrival times, series over time.

use serde_json::Value as Json;

use crate::schema::violations;
use crate::{Ended, Folder, root};

const JOBS: &str = "\
seed = 1
[drive.nand]
blocks_per_plane = 32
pages_per_block = 8
[drive.ftl]
logical_pages = 160
[workload]
iodepth = 4
[[jobs]]
name = \"probe\"
rate_iops = 100
rate_process = \"poisson\"
rwmixread = 50
[[jobs]]
name = \"log\"
rw = \"write\"
bssplit = \"4k/75:8k/25\"
thinktime = \"5ms\"
flush_every = 10
[run]
warmup = \"100ms\"
measure = \"1s\"
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("jobs.toml", JOBS);
    folder
}

#[track_caller]
fn run(folder: &Folder, sets: &[&str]) -> Ended {
    let mut args = vec!["run", "jobs.toml", "--quiet", "--json", "-"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    folder.strobe(&args)
}

#[test]
fn every_job_has_its_own_figures_and_line() {
    let folder = folder();
    let result = run(&folder, &["run.interval=100ms"]).ok().json();
    let names: Vec<_> = result["jobs"].as_array().expect("jobs").iter().map(|job| &job["jobname"]).collect();
    assert_eq!(names, ["probe", "log"]);
    assert_eq!(result["total"]["jobname"], "total");
    assert_eq!(result["intervals"].as_array().map(Vec::len), Some(11));
    // The intervals contain all held time of the dies.
    let intervals = result["intervals"].as_array().expect("intervals");
    let number = |value: &Json| value.as_f64().expect("a number");
    let busy_ns: f64 = intervals
        .iter()
        .filter(|interval| interval["measured"] == true)
        .map(|interval| {
            let length = number(&interval["end_ns"]) - number(&interval["start_ns"]);
            assert!(number(&interval["collecting"]) <= 1.0, "{interval}");
            number(&interval["busy_dies"]) * length
        })
        .sum();
    let held_ns = number(&result["dies"]["held_ns"]);
    assert!(held_ns > 0.0 && (busy_ns - held_ns).abs() <= 1e-6 * held_ns, "{busy_ns} {held_ns}");
    assert!(result["jobs"][0]["read"]["lat_ns"]["N"].as_u64() > Some(10), "{}", result["jobs"][0]);
    assert_eq!(result["jobs"][1]["write"]["lat_ns"], Json::Null, "a closed loop");
    let schema = folder.strobe(&["schema", "result"]).ok().json();
    for sets in [
        &["run.interval=100ms", "run.latency_bins=true"][..],
        &["run.until_steady=iops", "run.steady_interval=100ms"],
        &["run.until_steady=waf", "run.steady_interval=2x", "jobs.probe.rate_iops=100000"],
    ] {
        let result = run(&folder, sets).ok().json();
        assert_eq!(violations(&result, &schema), Vec::<String>::new(), "{sets:?}");
    }
    let text = folder.strobe(&["run", "jobs.toml", "--full"]).ok().out;
    for part in [
        "jobs      probe: uniform 50 % writes",
        "log: sequential writes of 4.0 KiB, 8.0 KiB",
        "a pause of 5ms after each",
    ] {
        assert!(text.contains(part), "\"{part}\" is missing in {text}");
    }
    let about = text.lines().skip_while(|line| !line.starts_with("jobs")).take_while(|line| !line.is_empty());
    assert!(about.clone().count() == 4 && about.clone().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_check_prints_means_the_same() {
    let folder = folder();
    folder.write("again.toml", folder.strobe(&["check", "jobs.toml"]).ok().out);
    let again = folder.strobe(&["run", "again.toml", "--quiet", "--json", "-", "--reproducible"]).ok().json();
    let first = folder.strobe(&["run", "jobs.toml", "--quiet", "--json", "-", "--reproducible"]).ok().json();
    assert_eq!(first, again);
    assert_eq!(first["config"]["workload"], Json::Null);
    assert_eq!(first["config"]["jobs"][1]["thinktime"], "5ms");
}

#[test]
fn keys_of_jobs_are_set_by_name_and_by_number() {
    let folder = folder();
    for set in ["jobs.probe.rate_iops=300", "jobs.0.rate_iops=300"] {
        let result = run(&folder, &[set]).ok().json();
        assert_eq!(result["config"]["jobs"][0]["rate_iops"], 300, "{set}");
    }
    run(&folder, &["jobs.prob.rate_iops=300"])
        .refused(&["--set jobs.prob.rate_iops=300", "did you mean probe?"]);
    run(&folder, &["jobs.probe.rate_iop=3"]).refused(&["--set jobs.probe.rate_iop=3", "jobs[0].rate_iops?"]);
    run(&folder, &["jobs.probe=3"]).refused(&["jobs"]);
    let result = run(&folder, &["workload.block_bytes=8192", "jobs.log.bssplit=4k"]).ok().json();
    assert_eq!(result["config"]["jobs"][0]["block_bytes"], 8192);
}

#[test]
fn a_series_is_written_as_csv() {
    let folder = folder();
    let args = ["run", "jobs.toml", "--set", "run.interval=250ms", "--quiet", "--series"];
    folder.strobe(&[&args[..], &["series.csv"]].concat()).ok();
    let csv = folder.read("series.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with("start_ns,end_ns,measured,read_iops,")
            && lines[0].ends_with(",busy_dies,collecting")
    );
    // The warm-up ends within the first interval.
    assert_eq!(lines.len(), 1 + 1 + 4, "{csv}");
    let out = folder.strobe(&[&args[..], &["-"]].concat()).ok().out;
    assert_eq!(out, csv);
    folder.strobe(&["run", "jobs.toml", "--series", "x.csv"]).refused(&["--series", "run.interval=100ms"]);
    folder.strobe(&[&args[..], &["x", "--json", "x"]].concat()).refused(&["--series", "--json", "same file"]);
    folder.strobe(&[&args[..], &["jobs.toml"]].concat()).refused(&["--series jobs.toml", "input"]);
}

#[test]
fn a_trace_has_a_series_too() {
    let folder = folder();
    let mut trace = String::from("fio version 3 iolog\n0 a add\n0 a open\n");
    for request in 0..400 {
        trace += &format!("{} a write {} 4096\n", request * 20_000, request % 100 * 4096);
    }
    folder.write("t.fio", trace);
    let args = ["replay", "t.fio", "--format", "fio", "--set", "run.interval=1s", "--quiet"];
    let csv = folder.strobe(&[&args[..], &["--series", "-"]].concat()).ok().out;
    let rates: Vec<f64> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(9).expect("a column").parse().expect("a number"))
        .collect();
    assert!(rates.len() == 8 && rates.iter().all(|rate| (rate - 50.0).abs() < 1.01), "{csv}");
    folder.strobe(&[&args[..4], &["--series", "-"]].concat()).refused(&["--series", "run.interval=100ms"]);
}

#[test]
fn jobs_that_make_no_sense_are_refused_with_key_and_cure() {
    let folder = folder();
    for (sets, parts) in [
        (&["jobs.log.name=probe"][..], &["jobs[1].name", "no other job has"][..]),
        (&["jobs.log.name=7"], &["jobs[1].name"]),
        (&["run.timing=false", "run.warmup=0", "run.measure=5"], &["run.timing", "with [[jobs]]"]),
        (&["jobs.log.thinktime=5"], &["jobs[1].thinktime", "a time with its unit"]),
        (&["jobs.log.startdelay=soon"], &["jobs[1].startdelay", "a time with its unit"]),
        (&["jobs.log.runtime=0s"], &["jobs[1].runtime", "longer than 0"]),
        (
            &["jobs.log.startdelay=\"100000d\"", "jobs.log.runtime=\"150000d\""],
            &["jobs[1].startdelay", "584 years"],
        ),
        (&["jobs.log.numjobs=256"], &["257 jobs", "at most 256"]),
        (&["jobs.log.numjobs=257"], &["jobs[1].numjobs", "from 1 to 256"]),
        (&["jobs.log.offset=1g"], &["jobs[1].offset_bytes", "(job log)"]),
        (&["jobs.log.size=1g"], &["jobs[1].size_bytes", "(job log)"]),
        (&["jobs.log.bs=4k"], &["jobs[1].bssplit", "jobs[1].bs left out"]),
        (&["jobs.log.bssplit=\"4k/40:8k/40\""], &["block_split.percent", "a sum of 80", "100 for all"]),
        (&["jobs.log.bssplit=\"4k,8k\""], &["jobs[1].bssplit", "4k/60:64k/40"]),
        (&["jobs.log.bssplit=\"1000/100\""], &["block_bytes", "512"]),
        (&["jobs.probe.trim_fraction=0.1"], &["jobs[0].trim_fraction", "job log writes or trims"]),
        (&["jobs.probe.theta=1.5"], &["jobs[0].theta", "no effect", "zipf"]),
        (&["workload.theta=1.5"], &["workload.theta", "no effect"]),
        (&["jobs.log.rate_process=poisson"], &["jobs[1].rate_process", "no effect", "rate_iops"]),
        (&["jobs.probe.thinktime_blocks=3"], &["jobs[0].thinktime_blocks", "no effect", "thinktime"]),
        (&["workload.rate_repeat=5s"], &["workload.rate_repeat", "no effect", "rate_points"]),
        (&["workload.kind=trace"], &["workload.kind", "traces and file systems run alone"]),
        (&["jobs.log.iodepth=8", "jobs.probe.iodepth=2"], &["workload.queue_depth", "every job has its own"]),
        (&["run.interval=0s"], &["run.interval", "longer than 0"]),
        (&["run.interval=1us"], &["run.interval", "at least", "10000"]),
        (&["run.steady_rounds=7"], &["run.steady_rounds", "no effect", "run.until_steady"]),
        (&["run.precondition=5s"], &["run.precondition", "at full speed"]),
        (&["run.until_steady=wav"], &["run.until_steady", "did you mean waf?"]),
    ] {
        run(&folder, sets).refused(parts);
    }
    let jobs = |jobs: &str| {
        folder.write("bad.toml", format!("{}\n{jobs}", JOBS.split("[[jobs]]").next().expect("a start")));
        folder.strobe(&["run", "bad.toml"])
    };
    jobs("[[jobs]]\nrate_iops = 5").refused(&["jobs[0].name is missing"]);
    jobs("[jobs]\nname = \"a\"").refused(&["jobs", "write [[jobs]]"]);
}

#[test]
fn rates_that_make_no_sense_are_refused_with_key_and_cure() {
    let folder = Folder::new();
    let points = |points: &str| format!("workload.rate_points=[{points}]");
    let (zero, one) = ("{at=\"0s\", iops=0}", "{at=\"1s\", iops=5}");
    for (sets, parts) in [
        (vec![points(&format!("{one}, {zero}"))], &["workload.rate_points", "ascending"][..]),
        (vec![points(zero)], &["workload.rate_points", "above 0"]),
        (vec![points("{at=5, iops=3}")], &["workload.rate_points[0].at", "a time with its unit"]),
        (vec![points("{at=\"1s\"}")], &["workload.rate_points[0].iops", "missing"]),
        (
            vec![points(one), "workload.rate_repeat=1s".to_owned()],
            &["workload.rate_repeat", "later than the last"],
        ),
        (
            vec!["run.measure=5s".to_owned(), "run.timing=false".to_owned()],
            &["run.measure", "\"3x\"", "run.timing"],
        ),
        (
            vec!["run.until_steady=iops".to_owned(), "run.timing=false".to_owned()],
            &["run.until_steady", "waf"],
        ),
        (
            vec!["run.interval=1s".to_owned(), "run.timing=false".to_owned()],
            &["run.interval", "run.timing = true"],
        ),
    ] {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        folder.tiny(&sets).refused(parts);
    }
    folder.write("both.toml", "[workload]\nrate_iops = 5\nrate_points = [{ at = \"0s\", iops = 3 }]");
    folder.strobe(&["run", "both.toml"]).refused(&["workload.rate_iops", "both set the request rate"]);
    folder.write("t.csv", "1,h,0,Write,0,4096,1\n");
    for (set, parts) in [
        ("run.precondition=1s", &["run.precondition", "full speed"][..]),
        ("run.until_steady=waf", &["run.until_steady", "trace"]),
        ("workload.thinktime=1s", &["unknown key workload.thinktime"]),
    ] {
        folder.replay("t.csv", "msr", &["--set", set]).refused(parts);
    }
}

#[test]
fn a_long_wait_is_named_with_its_cause_and_can_be_allowed() {
    let folder = Folder::new();
    let tight = ["drive.ftl.logical_pages=200", "workload.write_fraction=0.5", "workload.queue_depth=32"];
    let result = folder.tiny(&tight).ok().json();
    let wait = &result["long_wait"];
    assert_eq!((&wait["slowest"], wait["slowest_ns"].as_u64()), (&"erase".into(), Some(5_000_000)));
    assert!(wait["latency_ns"].as_u64() > Some(50_000_000) && wait["requests"].as_u64() > Some(0), "{wait}");
    assert!(wait["causes"][0].as_str().expect("a cause").contains("the die was busy for"), "{wait}");
    let note =
        result["notes"].as_array().expect("notes").iter().find(|note| note.to_string().contains("WAITED"));
    assert!(note.expect("a note").to_string().contains("more than 10 times (run.long_wait)"), "{note:?}");
    for allowed in ["run.long_wait=1000", "run.long_wait=0"] {
        let result = folder.tiny(&[&tight[..], &[allowed]].concat()).ok().json();
        assert_eq!(result["long_wait"], Json::Null, "{allowed}");
    }
}

#[test]
fn the_example_measures_latency_under_load() {
    let folder = Folder::new();
    let example = root().join("examples/latency-under-load.toml");
    let example = example.to_str().expect("UTF-8");
    let result = folder.strobe(&["run", example, "--quiet", "--json", "-"]).ok().json();
    assert_eq!(result["jobs"].as_array().map(Vec::len), Some(7));
    assert_eq!(result["load"]["kept_up"], true, "{}", result["load"]);
    let wild = [
        "run",
        example,
        "--set",
        "jobs.load.rate_iops=5000",
        "--set",
        "run.measure=2s",
        "--set",
        "run.warmup=0",
    ];
    let text = folder.strobe(&wild).ok().out;
    assert!(text.contains("DID NOT KEEP UP") && text.contains("behind: load.0"), "{text}");
}
