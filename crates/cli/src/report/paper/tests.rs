use strobe_papers::{Figure, Row, View};

use super::*;

fn claim(verdict: Verdict, claim: &str, paper: Option<f64>, measured: Option<f64>) -> Claim {
    let band = Band {
        low: Some(63.0),
        high: Some(83.0),
        direction: Some([Some(0.0), None]),
        reason: "10 points".into(),
        was: Some("35 to 90".into()),
    };
    Claim {
        id: String::new(),
        place: "4".into(),
        claim: claim.into(),
        quote: paper.map(|_| Quote {
            section: "IV".into(),
            original: "수명".into(),
            translation: "life".into(),
        }),
        unit: "%".into(),
        paper,
        measured,
        error: None,
        band,
        verdict,
        why: if verdict == Verdict::Reproduced { String::new() } else { "of luck".into() },
    }
}

fn result(rows: Vec<Row>, view: View) -> PaperResult {
    let figure = Figure { figure: "4".into(), title: "lives".into(), note: None, rows, view };
    PaperResult {
        schema_version: 2,
        strobe_version: "0".into(),
        paper: "p".into(),
        quick: true,
        seed: 1,
        sets: Vec::new(),
        notes: vec!["QUICK: less".into(), "a note".into()],
        claims: vec![
            claim(Verdict::Reproduced, "B over A", Some(73.0), Some(73.29)),
            claim(Verdict::Missed, "C over A", None, Some(-113.29)),
            claim(Verdict::NotRun, "on a kernel", Some(1.5), None),
        ],
        figures: vec![figure],
    }
}

fn bar(set: &str, policy: &str, value: f64) -> Row {
    Row::new(&[("cold_hot", set), ("policy", policy), ("unit", "M")], Some(value))
}

const BARS: View = View::Bars { panel: &[], group: "cold_hot", bar: "policy" };

#[test]
fn the_screen_has_each_claim_with_its_reason_and_a_tally_of_what_counts() {
    let text = screen(&result(vec![bar("7:3", "A", 1.0)], BARS));
    let lines: Vec<&str> = text.lines().collect();
    let [first, second, third] = ["B over A", "C over A", "on a kernel"].map(|name| {
        let here: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].contains(name)).collect();
        assert_eq!(here.len(), 1, "{text}");
        // The claim and its reason below.
        (lines[here[0]], lines[here[0] + 1].trim())
    });
    assert!(first.0.starts_with("reproduced") && first.0.contains(" 73 ") && first.0.ends_with(" 73.29 %"));
    assert!(second.0.starts_with("missed") && second.0.ends_with(" -113.29 %"));
    assert!(third.0.starts_with("not run") && third.0.contains("1.500"));
    assert_eq!([first.1, second.1, third.1], ["band: 63 to 83", "of luck", "of luck"], "{text}");
    assert!(lines.iter().all(|line| line.contains(" claims: ") || line.chars().count() <= 80), "{text}");
    let tally = "2 claims: seed 1, strobe 0\n  1 numbers: 1 reproduced, 0 direction only, 0 missed\n  \
                 1 directions: 0 reproduced, 0 direction only, 1 missed\n  not counted: 0 by construction, 1 not run";
    assert!(text.contains("QUICK: less") && !text.contains("a note") && text.contains(tally), "{text}");
}

#[test]
fn many_claims_that_were_not_run_are_one_line_of_the_screen_and_all_of_the_whole() {
    let mut result = result(vec![bar("7:3", "A", 1.0)], BARS);
    let more = |name: &str| claim(Verdict::NotRun, name, None, None);
    result.claims.push(Claim { place: "7".into(), ..more("another") });
    assert!(screen(&result).contains("another"), "two are few");
    result.claims.push(Claim { why: "of a reason".into(), ..more("alone") });
    assert!(screen(&result).contains("another"), "and not for the same reason");
    result.claims.insert(3, more("a third"));
    let text = screen(&result);
    assert!(text.contains("not run     3 claims of 4, 7 (--full names them)"), "{text}");
    assert!(!text.contains("on a kernel") && !text.contains("another") && text.contains("alone"), "{text}");
    assert_eq!(text.matches("of luck").count(), 2, "of what was missed, and of the three: {text}");
    let whole = full(&result);
    assert!(
        ["on a kernel", "another", "a third", "alone"].iter().all(|name| whole.contains(name)),
        "{whole}"
    );
}

#[test]
fn everything_has_bands_with_their_reasons_and_tables() {
    // Cells of one line need not be adjacent in the rows.
    let rows = vec![
        bar("7:3", "A", 1.0),
        bar("8:2", "A", 1.5),
        bar("7:3", "B", 2.5).with_paper(2.0),
        bar("8:2", "B", 3.5),
    ];
    let text = full(&result(rows, BARS));
    for part in [
        "a note",
        "63 to 83 % (was 35 to 90); 10 points",
        "section IV: 수명\n    (life)",
        "Figure 4: lives",
        "in M:",
        "2.500 (paper 2)",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(text.matches("7:3").count(), 1, "{text}");
    assert_eq!(text.matches("unit").count(), 0, "{text}");
}

#[test]
fn many_points_are_a_curve_and_few_a_table() {
    let point = |policy: &str, x: f64, value| Row::new(&[("policy", policy)], Some(value)).at("x", x);
    let view = View::Curves { panel: &[], of: "policy", over: "x" };
    let few = vec![point("A", 1.0, 1.0), point("A", 2.0, 8.0), point("B", 1.0, 3.0)];
    assert!(full(&result(few, view)).contains("x 2.0"));
    let many = (0..20).map(|at| point("A", f64::from(at), f64::from(at * at))).collect();
    assert!(full(&result(many, view)).contains("0 to 361 at 0 to 19 x"));
}

#[test]
fn pictures_show_bars_lines_and_what_the_paper_says() {
    let rows = vec![bar("7:3", "A < B", 1.0), bar("7:3", "C", 2.5).with_paper(2.0)];
    let picture = svg(&result(rows, BARS).figures[0]).expect("bars");
    assert!(
        picture.starts_with("<svg") && picture.contains("A &lt; B") && picture.contains(">paper<"),
        "{picture}"
    );
    let point = |x: f64| Row::new(&[("policy", "A"), ("unit", "s")], Some(x)).at("x", x);
    let view = View::Curves { panel: &[], of: "policy", over: "x" };
    let picture = svg(&result(vec![point(1.0), point(2.0)], view).figures[0]).expect("a line");
    assert!(picture.contains("class=\"line s0\"") && picture.contains("<circle"), "{picture}");
    assert_eq!(svg(&result(vec![point(1.0)], View::List).figures[0]), None);
    let cell = |x: &str, y: &str, count| Row::new(&[("of", "m"), ("x", x), ("y", y)], Some(count));
    let rows = vec![cell("0", "0", 9.0), cell("5", "0", 0.0), cell("0", "7", 0.0), cell("5", "7", 1.0)];
    let picture = svg(&result(rows, View::Map { of: "of", across: "x", up: "y" }).figures[0]).expect("a map");
    assert_eq!(picture.matches("class=\"cell\"").count(), 2, "{picture}");
}

#[test]
fn long_claims_are_broken_and_a_reason_that_several_have_stands_once() {
    let long = "a claim that says so much that it does not fit into one line of a terminal, however small its letters are";
    let mut result = result(vec![bar("7:3", "A", 1.0)], BARS);
    result.claims =
        [long, "short", "other"].map(|name| claim(Verdict::Missed, name, Some(1.0), Some(2.5))).to_vec();
    result.claims[2].why = "of something else".into();
    let text = screen(&result);
    assert_eq!(
        (text.matches("of luck").count(), text.matches("of something else").count()),
        (1, 1),
        "{text}"
    );
    let words: Vec<&str> = text.split_whitespace().filter(|&word| word != "1" && word != "2.500").collect();
    assert!(words.join(" ").contains("so much that it"), "{text}");
    assert!(text.lines().all(|line| line.contains(" claims: ") || line.chars().count() <= 80), "{text}");
}
