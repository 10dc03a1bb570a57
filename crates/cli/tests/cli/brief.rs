use crate::{Folder, finish};

fn shown(folder: &Folder, sets: &[&str]) -> String {
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    folder.strobe(&["run", "tiny.toml"].into_iter().chain(sets).collect::<Vec<_>>()).ok().out
}

#[test]
fn the_first_summary_fits_one_screen() {
    let folder = Folder::new();
    for sets in [
        &[][..],
        &["workload.write_fraction=0.5"],
        &["workload.write_fraction=0"],
        &["run.timing=false"],
        &["drive.nand.endurance_pe=0"],
        &["run.prefill=false", "run.measure=10", "run.warmup=0"],
        &["workload.trim_fraction=0.1", "workload.write_fraction=0.5"],
    ] {
        let text = shown(&folder, sets);
        let lines: Vec<&str> = text.lines().collect();
        assert!((11..=18).contains(&lines.len()), "{} lines\n{text}", lines.len());
        for line in lines.iter().filter(|line| !line.starts_with("  strobe run")) {
            assert!(line.chars().count() <= 80, "{sets:?}: {line}\nin\n{text}");
        }
        assert!(text.contains("configuration ") && text.contains("--full"), "{text}");
        assert!(!text.contains('\u{1b}'), "colour in a pipe: {text}");
    }
}

#[test]
fn the_first_summary_says_what_the_numbers_mean() {
    let folder = Folder::new();
    let sets = ["drive.nand.endurance_pe=3000", "run.measure=100x"];
    let result = folder.tiny(&sets).ok().json();
    let text = shown(&folder, &sets);
    let waf = result["waf"].as_f64().expect("a number");
    let [written, programmed] = [&result["host"]["write"]["bytes"], &result["nand"]["program"]["total"]]
        .map(|count| count.as_f64().expect("a count"));
    let page_bytes = result["config"]["drive"]["nand"]["page_bytes"].as_f64().expect("a size");
    let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20)).replace(".0 ", " ");
    let totals = format!("{} written, {} of flash programmed", mib(written), mib(programmed * page_bytes));
    assert!(text.contains(&format!("WAF       {waf:.2}: {totals}")), "{totals} in {text}");
    // Ideal lifetime in bytes (TBW, in GB for a drive of 640 KiB); DWPD divides it by the capacity and five
    // years.
    let bytes = result["wear"]["ideal_host_pages"].as_f64().expect("pages") * 4096.0;
    let dwpd = bytes / (160.0 * 4096.0) / (5.0 * 365.25);
    assert!(text.contains(&format!("{:.2} GB written, {dwpd:.2} DWPD (5 years)", bytes / 1e9)), "{text}");
    let max = result["jobs"][0]["write"]["clat_ns"]["max"].as_f64().expect("a latency");
    assert!(
        text.contains(&format!("slowest   a write took {}", strobe_lab::numbers::duration(max))),
        "{text}"
    );
    folder.strobe(&["run", "tiny.toml", "--report", "tiny.html", "--quiet"]).ok();
    let page = std::fs::read_to_string(folder.path().join("tiny.html")).expect("a page");
    assert!(page.contains("640 KiB offered"), "{page}");
    let endless = shown(&folder, &["drive.nand.endurance_pe=0"]);
    assert!(endless.contains("no endurance (drive.nand.endurance_pe = 0)"), "{endless}");
    let counted = shown(&folder, &["run.timing=false", "workload.flush_every=10"]);
    assert!(counted.contains("times were not simulated") && !counted.contains("slowest"), "{counted}");
    let flush = counted.lines().find(|line| line.starts_with("flush")).expect("a line");
    assert!(flush.ends_with("requests; times were not simulated"), "{flush}");
}

#[test]
fn the_first_summary_tells_what_its_window_is_worth() {
    let folder = Folder::new();
    let big =
        ["drive.nand.blocks_per_plane=2560", "drive.ftl.logical_pages=16000", "drive.nand.endurance_pe=0"];
    let with = |more: &[&str]| shown(&folder, &[&big[..], more].concat());
    let early = with(&["run.warmup=0", "run.measure=2x"]);
    assert!(early.contains("NOT STEADY") && early.contains("--set run.warmup=8x"), "{early}");
    assert!(early.contains("# nearer to steady state: 128,000 writes first\n"), "{early}");
    let late = with(&["run.warmup=20x", "run.measure=10x"]);
    assert!(late.contains("steady over 10 × capacity") && late.contains('┊'), "{late}");
    let none = with(&["run.prefill=false", "run.warmup=0", "run.measure=100"]);
    assert!(none.contains("GC NEVER RAN") && none.contains("--set run.prefill=true"), "{none}");
    assert!(none.contains("# a full drive: 48,000 writes first\n"), "{none}");
    // Settings already in place are not suggested again.
    let filled = with(&["run.prefill=true", "run.warmup=0", "run.measure=100"]);
    assert!(
        filled.contains("GC NEVER RAN") && !filled.contains("run.prefill=true --set run.precondition"),
        "{filled}"
    );
    assert!(filled.contains("# a full drive: 32,000 writes first\n"), "{filled}");
}

#[test]
fn a_lifetime_needs_the_write_amplification_of_the_steady_state() {
    let folder = Folder::new();
    let lifetime = |sets: &[&str]| {
        let sets = [&["drive.nand.endurance_pe=3000"], sets].concat();
        let text = shown(&folder, &sets);
        let result = folder.tiny(&sets).ok().json();
        let line = text.lines().find(|line| line.starts_with("lifetime")).expect("a line").to_owned();
        let verdict = result["window"]["verdict"].as_str().expect("a verdict").to_owned();
        assert_eq!(result["wear"]["ideal_host_pages"].is_u64(), verdict == "steady", "{verdict}: {text}");
        assert_eq!(line.contains("DWPD"), verdict == "steady", "{verdict}: {text}");
        (verdict, line)
    };
    let of = |sets: &[&str], verdict: &str, part: &str| {
        let found = lifetime(sets);
        assert!(found.0 == verdict && found.1.contains(part), "{found:?}");
    };
    of(&["run.measure=100x"], "steady", "DWPD (5 years)");
    of(&["run.measure=10", "run.warmup=0"], "nothing-collected", "no estimate: GC never ran");
    of(&["run.measure=80"], "too-few-intervals", "no estimate: too little was written");
    let young = ["drive.nand.blocks_per_plane=2560", "drive.ftl.logical_pages=16000", "run.warmup=0"];
    of(&[&young[..], &["run.measure=2x"]].concat(), "transient", "no estimate: the WAF was not yet");
}

#[test]
fn figures_of_no_time_or_few_requests_are_left_out() {
    let folder = Folder::new();
    folder.write("flushes.trace", "strobe trace 1\n0 flush\n0 flush\n");
    let replay = ["replay", "flushes.trace", "--format", "strobe", "--drive", "generic-8g"];
    let text = folder.strobe(&replay).ok().out;
    let flush = text.lines().find(|line| line.starts_with("flush")).expect("a line");
    assert!(flush.contains("- IOPS") && flush.contains("p99 -"), "{text}");
    let few = shown(&folder, &["run.measure=50"]);
    let line = few.lines().find(|line| line.starts_with("write")).expect("a line");
    assert!(line.contains("p99 -  p99.9 -"), "{few}");
    let full = folder.strobe(&["run", "tiny.toml", "--full", "--set", "run.measure=500"]).ok().out;
    assert!(full.contains("↑p99") && !full.contains("↑p99.9"), "{full}");
}

#[test]
fn commands_to_go_on_with_are_those_that_were_typed() {
    let folder = Folder::new();
    let formula = "drive.ftl.gc.victim=age * (1-u)";
    let args = ["run", "tiny.toml", "--set", formula, "--json", "out.json"];
    let text = folder.strobe(&args).ok().out;
    let again = format!("  strobe run tiny.toml --set '{formula}' --full");
    assert!(text.lines().any(|line| line.starts_with(&again)), "{again}\n{text}");
    assert!(!text.contains("out.json"), "{text}");
    let full = folder.strobe(&["run", "tiny.toml", "--full"]).ok().out;
    assert!(full.contains("write amplification ") && full.contains("by cause"), "{full}");
}

#[test]
fn a_report_is_one_page_with_an_xray() {
    let folder = Folder::new();
    folder.strobe(&["run", "tiny.toml", "--report", "out.html", "--quiet"]).ok();
    let page = folder.read("out.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("xray"), "{}", &page[..200]);
    folder
        .strobe(&["run", "tiny.toml", "--report", "x", "--json", "x"])
        .refused(&["--json and --report are the same file"]);
}

#[test]
fn colour_is_for_terminals() {
    let folder = Folder::new();
    let on_terminal = |variables: &[(&str, &str)]| {
        let run = format!("{} run tiny.toml", env!("CARGO_BIN_EXE_strobe"));
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &run, "/dev/null"]).current_dir(folder.path());
        command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped()).spawn().ok().map(|child| finish(child).out)
    };
    let Some(coloured) = on_terminal(&[]) else {
        println!("SKIPPED: colour: no `script` to make a terminal");
        return;
    };
    assert!(coloured.contains("\u{1b}[1m"), "{coloured}");
    for variables in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = on_terminal(&[variables]).expect("it has run before");
        assert!(plain.contains("WAF") && !plain.contains("\u{1b}[1m"), "{variables:?}: {plain}");
    }
}

#[test]
fn writes_that_stay_in_the_drives_memory_give_no_lifetime() {
    let folder = Folder::new();
    folder.write("one.fio", "fio version 2 iolog\nd add\nd open\nd write 0 4096\nd close\n");
    let replay = ["replay", "one.fio", "--format", "fio", "--drive", "tlc-nvme-1t"];
    let text = folder.strobe(&replay).ok().out;
    assert!(text.contains("WAF       0.00: no flash was programmed in the measured window"), "{text}");
    let reads = shown(&folder, &["workload.write_fraction=0", "drive.nand.endurance_pe=3000"]);
    for text in [text, reads] {
        assert!(text.contains("lifetime  no estimate: no host write reached the flash"), "{text}");
    }
    let result = folder.strobe(&[&replay[..], &["--json", "-", "-q"]].concat()).ok().json();
    assert!(
        result["waf"] == 0.0 && result["wear"].get("ideal_host_pages").is_none_or(|pages| pages.is_null())
    );
}
