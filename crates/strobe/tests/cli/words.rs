//! What the program says: the reason first, the one who is to blame, and the cure.

use crate::{Folder, TINY};

/// What is said about `victim` in an experiment file.
#[track_caller]
fn about_victim(victim: &str) -> String {
    let folder = Folder::new();
    folder.write("v.toml", format!("{TINY}[drive.ftl.gc]\nvictim = '{victim}'\n"));
    let ended = folder.strobe(&["check", "v.toml"]);
    ended.refused(&["v.toml: drive.ftl.gc.victim"]);
    ended.err.trim_end().to_owned()
}

const VARIABLES: &str = "variables are u, valid, invalid, units, age, age_closed, age_last_invalid, \
    age_first_invalid, age_newest_valid, age_invalid_sum, erase_count; `strobe list policies` explains them";

#[test]
fn a_wrong_formula_is_answered_with_the_reason_the_place_and_the_variables() {
    let start = "strobe: v.toml: drive.ftl.gc.victim: ";
    for (victim, reason) in [
        ("Age", "unknown variable Age; did you mean age? (character 1 of \"Age\"); "),
        ("2u", "an operator is missing; to multiply, write 2 * u (character 2 of \"2u\"); "),
        ("u-agee", "unknown variable agee; did you mean age? (character 3 of \"u-agee\"); "),
        ("age *", "something is missing at the end (character 6 of \"age *\"); "),
        ("1 + 2", "it uses no variable and so cannot tell blocks apart; "),
    ] {
        assert_eq!(about_victim(victim), format!("{start}{reason}{VARIABLES}"));
    }
    let long = format!("{}agee{}", "u + ".repeat(110), " + u".repeat(110));
    let said = about_victim(&long);
    let place = "(character 441 of \"...u + u + u + u + u + u + agee + u + u + u + u + u...\")";
    assert_eq!(said, format!("{start}unknown variable agee; did you mean age? {place}; {VARIABLES}"));
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
