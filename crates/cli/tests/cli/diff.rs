use crate::Folder;

fn folder() -> Folder {
    let folder = Folder::new();
    for (name, sets) in [
        ("greedy.json", &[][..]),
        ("again.json", &[]),
        ("seed.json", &["--seed", "2"]),
        ("fifo.json", &["--set", "drive.ftl.gc.victim=fifo", "--set", "drive.nand.erase_ns=3_000_000"]),
        ("counted.json", &["--set", "run.timing=false"]),
        ("mixed.json", &["--set", "workload.write_fraction=0.5", "--set", "workload.trim_fraction=0.1"]),
    ] {
        folder.strobe(&[&["run", "tiny.toml", "--quiet", "--json", name], sets].concat()).ok();
    }
    folder
}

#[test]
fn equal_results_are_equal_whatever_the_simulator_took() {
    let folder = folder();
    let ended = folder.strobe(&["diff", "greedy.json", "again.json"]).ok();
    assert_eq!(ended.out, "greedy.json and again.json are equal\n");
    assert_eq!(folder.strobe(&["diff", "greedy.json", "again.json", "--quiet"]).ok().out, "");
    let json = folder.strobe(&["diff", "--json", "greedy.json", "again.json"]).ok().json();
    assert_eq!(json["equal"], true);
    assert_eq!(json["figures"][0]["relative"], 0.0);
    // One differing number of some hundred is enough.
    let mut other: serde_json::Value = serde_json::from_str(&folder.read("again.json")).expect("JSON");
    other["smart"]["media_errors"] = 1.into();
    folder.write("other.json", other.to_string());
    let ended = folder.strobe(&["diff", "greedy.json", "other.json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("configuration and seed are equal"), "{}", ended.out);
    assert!(ended.out.contains("1 other number differs, first smart.media_errors"), "{}", ended.out);
}

#[test]
fn what_differs_is_told_by_key_and_by_figure_on_one_screen() {
    let folder = folder();
    let ended = folder.strobe(&["diff", "greedy.json", "fifo.json"]);
    assert_eq!((ended.code, ended.err.as_str()), (1, ""), "{ended:?}");
    for part in [
        "ftl.gc.victim: greedy → fifo",
        "nand.erase_ns: ",
        " → 3000000",
        "\nWAF ",
        "\nwrite p99 ",
        "\nerases ",
        " %",
    ] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    let json = folder.strobe(&["diff", "greedy.json", "fifo.json", "--json"]);
    assert_eq!(json.code, 1);
    let json = json.json();
    let (greedy, fifo) = (of(&folder, "greedy.json"), of(&folder, "fifo.json"));
    let found = |name: &str| {
        let figures = json["figures"].as_array().expect("figures");
        figures
            .iter()
            .find(|figure| figure["figure"] == name)
            .unwrap_or_else(|| panic!("{name}: {json}"))
            .clone()
    };
    for (name, path) in [
        ("WAF", "/waf"),
        ("erases", "/nand/erase/total"),
        ("units copied by GC", "/gc/units_moved"),
        ("write MB/s", "/jobs/0/write/bw_bytes"),
        ("write mean", "/jobs/0/write/clat_ns/mean"),
        ("write p99", "/jobs/0/write/clat_ns/percentile/99.000000"),
    ] {
        let number =
            |of: &serde_json::Value| of.pointer(path).and_then(serde_json::Value::as_f64).expect(name);
        let (a, b, found) = (number(&greedy), number(&fifo), found(name));
        assert_eq!((found["a"].as_f64(), found["b"].as_f64()), (Some(a), Some(b)), "{name}");
        assert_eq!(found["change"].as_f64(), Some(b - a), "{name}");
        assert_eq!(found["relative"].as_f64(), Some((b - a) / a), "{name}");
    }
    let keys: Vec<_> =
        json["configuration"].as_array().expect("keys").iter().map(|key| &key["key"]).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(json["others"].as_array().is_some_and(|others| !others.is_empty()), "{json}");
    for (one, other) in [("greedy", "seed"), ("greedy", "counted"), ("greedy", "mixed"), ("mixed", "counted")]
    {
        let ended = folder.strobe(&["diff", &format!("{one}.json"), &format!("{other}.json")]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.out.lines().count() <= 24, "{}", ended.out);
        assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{}", ended.out);
        assert!(!ended.out.contains("NaN") && !ended.out.contains("inf"), "{}", ended.out);
    }
    let counted = folder.strobe(&["diff", "greedy.json", "counted.json"]).out;
    let mean = counted.lines().find(|line| line.starts_with("write mean")).expect("a line");
    assert!(mean.split_whitespace().filter(|cell| *cell == "-").count() == 2, "{counted}");
}

fn of(folder: &Folder, name: &str) -> serde_json::Value {
    serde_json::from_str(&folder.read(name)).expect("a result")
}

#[test]
fn files_that_are_no_results_are_refused() {
    let folder = folder();
    let whole = folder.read("greedy.json");
    folder.write("half.json", &whole[..whole.len() / 2]);
    folder.write("text.json", "hello").write("other.json", "{\"schema_version\": 1}");
    folder.write("next.json", whole.replacen("\"schema_version\": 1", "\"schema_version\": 7", 1));
    let mut guest = of(&folder, "greedy.json");
    let drive = guest["config"]["drive"].take();
    guest.as_object_mut().expect("a result").remove("config");
    (guest["drive"], guest["guest"]) = (drive, serde_json::json!({ "kernel": "6.12" }));
    folder.write("guest.json", guest.to_string());
    for (file, part) in [
        ("nowhere.json", "No such file"),
        ("half.json", "is truncated"),
        ("text.json", "not JSON"),
        ("other.json", "not a result of a run"),
        ("next.json", "schema_version 7"),
        ("tiny.toml", "not JSON"),
        ("guest.json", "of a guest"),
    ] {
        folder.strobe(&["diff", file, "greedy.json"]).refused(&[file, part]);
        folder.strobe(&["diff", "greedy.json", file]).refused(&[file, part]);
    }
    folder.strobe(&["diff", "-", "-"]).refused(&["standard input is one result"]);
    folder.strobe(&["diff", "greedy.json"]).refused(&["B.json"]);
}
