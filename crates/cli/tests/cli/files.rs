use crate::Folder;

#[test]
fn a_program_on_fat_leaves_a_trace_that_can_be_replayed() {
    let folder = Folder::new();
    let few = ["--set", "transactions=1", "--set", "photos=2"];
    let args = [&["files", "camera", "--trace", "camera.fio", "--json", "-"], &few[..]].concat();
    let result = folder.strobe(&args).ok().json();
    let requests = result["requests"].as_object().expect("requests");
    let total: u64 = requests.values().map(|count| count.as_u64().expect("a count")).sum();
    assert!(requests["data"].as_u64() > Some(1000), "{requests:?}");
    for mapping in ["page", "fast"] {
        let replay =
            ["replay", "camera.fio", "--format", "fio", "--drive", "ez-x5-32m", "--quiet", "--json", "-"];
        let mapping = format!("drive.ftl.mapping={mapping}");
        let replayed = folder.strobe(&[&replay[..], &["--set", &mapping]].concat()).ok().json();
        let writes = replayed["trace"]["requests"]["write"].as_u64().expect("a count");
        assert!(writes > total && writes < total + 1000, "{writes} of {total}");
    }
}

#[test]
fn the_same_program_runs_in_a_directory() {
    let folder = Folder::new();
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).expect("made");
    let args = ["files", "postmark", "--buffered", "--directory", "inside", "--json", "-"];
    let result = folder.strobe(&args).ok().json();
    assert_eq!(result["bytes_written"], 4_662_068, "PostMark's defaults, byte for byte");
    assert!(result.get("requests").is_none());
    assert_eq!(std::fs::read_dir(&inside).expect("there").count(), 0, "PostMark deletes its files");
    folder.write("inside/left", "x");
    folder.strobe(&args).refused(&["--directory inside", "not empty"]);
}

#[test]
fn settings_are_listed_and_wrong_ones_refused() {
    let folder = Folder::new();
    let listed = folder.strobe(&["files", "postmark", "--help-settings"]).ok().out;
    assert!(listed.contains("transactions = 500") && listed.contains("size_max_bytes = 10000"), "{listed}");
    let refused = |set: &str, parts: &[&str]| {
        folder.strobe(&["files", "camera", "--set", set]).refused(parts);
    };
    refused("fotos=3", &["fotos", "photos", "--help-settings"]);
    refused("photos=0", &["photos", "from 1"]);
    refused("photos=many", &["--set"]);
    folder.strobe(&["files", "walkman"]).refused(&["walkman", "camera"]);
    // Four times 20 photos of half a megabyte do not fit.
    let full = folder.strobe(&["files", "camera", "--volume", "8", "--trace", "camera.fio"]);
    assert_eq!(full.code, 1, "{full:?}");
    full.says(&["space"]);
    let left =
        std::fs::read_dir(folder.path()).expect("there").map(|entry| entry.expect("there").file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().contains("camera")), "half a trace is left");
    folder.strobe(&["files", "camera", "--trace", "x", "--json", "x"]).refused(&["the same file"]);
}
