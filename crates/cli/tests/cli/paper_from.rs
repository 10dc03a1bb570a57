use crate::Folder;

#[test]
fn a_finished_run_is_shown_without_a_run() {
    let folder = Folder::new();
    let shown = folder.strobe(&["paper", "capi", "--tiny", "--json", "result.json", "--out", "all"]).ok().out;
    assert_eq!(folder.strobe(&["paper", "capi", "--from", "result.json"]).ok().out, shown);
    assert_eq!(folder.strobe(&["paper", "capi", "--from", "all/capi.json"]).ok().out, shown);
    let json = folder.read("result.json");
    let again = folder.strobe(&["paper", "capi", "--from", "result.json", "--json", "-"]).ok().out;
    assert_eq!(again.trim_end(), json.trim_end());
    folder.strobe(&["paper", "nvram", "--from", "result.json"]).refused(&["strobe paper capi --from"]);
    folder.strobe(&["paper", "capi", "--from", "no.json"]).refused(&["--from no.json"]);
    folder.write("other.json", json.replace("\"schema_version\": 2", "\"schema_version\": 1"));
    folder.strobe(&["paper", "capi", "--from", "other.json"]).refused(&["schema_version is 1"]);
    folder.write("bent.json", json.replace("\"missed\"", "\"reproduced\""));
    folder.strobe(&["paper", "capi", "--from", "bent.json"]).refused(&["reproduced", "band"]);
    folder.write("cut.json", &json[..json.len() / 2]);
    folder.strobe(&["paper", "capi", "--from", "cut.json"]).refused(&["not the result of a paper", "EOF"]);
    folder.strobe(&["paper", "capi", "--from", "result.json", "--quick"]).refused(&["--from", "--quick"]);
}
