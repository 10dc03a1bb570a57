//! Measurement files: accepted ones, and refused ones with line and remedy.

use strobe_twin::measurements::{Addresses, COLUMNS, Measurements, Offered};

const HEADING: &str =
    "capacity_bytes,offered_writes_s,offered_reads_s,completed_s,read_p50_us,read_p99_us,read_p999_us,waf";

fn parse(rows: &str) -> Result<Measurements, String> {
    Measurements::parse(&format!("{HEADING}\n{rows}"), "my.csv").map_err(|error| error.to_string())
}

#[test]
fn a_row_is_what_was_asked_and_what_was_seen() {
    let text = "# from my bench\n capacity_bytes , used_bytes,jobs,queue_depth,offered_writes_s,offered_reads_s,completed_s,\
                read_p50_us,read_p99_us,write_p50_us,waf\n1_048_576,524288,3,16,20000,5000,25000,70.5,256,9,1.5\n\
                1048576,,,,,,90000,,,,\n";
    let measurements = Measurements::parse(text, "my.csv").expect("valid");
    assert_eq!((measurements.capacity_bytes, measurements.rows.len()), (1_048_576, 2));
    let row = measurements.rows[0];
    assert_eq!((row.load.used_bytes, row.load.jobs, row.load.queue_depth), (524_288, 3, 16));
    assert_eq!(row.load.offered, Some(Offered { writes_s: 20_000, reads_s: 5000 }));
    assert_eq!((row.seen.completed_s, row.seen.waf), (Some(25_000.0), Some(1.5)));
    assert_eq!(row.seen.read_us, [Some(70.5), Some(256.0), None, None]);
    assert_eq!(row.seen.write_us, [Some(9.0), None, None, None]);
    let row = measurements.rows[1];
    assert_eq!((row.load.offered, row.load.used_bytes, row.load.jobs), (None, 1_048_576, 7));
}

#[test]
fn addresses_are_uniform_or_have_popular_ones() {
    let parse = |addresses: &str| {
        let text = format!(
            "capacity_bytes,addresses,offered_writes_s,offered_reads_s,completed_s,read_p50_us,read_p99_us\n\
             1048576,{addresses},,,90000,,\n"
        );
        let measurements = Measurements::parse(&text, "my.csv").map_err(|error| error.to_string());
        measurements.map(|measurements| measurements.rows[0].load.addresses)
    };
    let zipf = |theta_milli, scattered| Ok(Addresses::Zipf { theta_milli, scattered });
    for (text, expected) in [
        ("", Ok(Addresses::Uniform)),
        ("uniform", Ok(Addresses::Uniform)),
        ("zipf:0.8", zipf(800, true)),
        ("zipf-in-order:0.125", zipf(125, false)),
    ] {
        let found = parse(text);
        assert_eq!(found, expected, "{text}");
        let found = found.expect("valid");
        assert_eq!(found.to_string().parse(), Ok(found));
    }
    for text in
        ["zipf", "zipf:", "zipf:0", "zipf:-1", "zipf:NaN", "zipf:1e9", "zipf:1", "pareto:0.8", "zipf:0,8"]
    {
        let error = parse(&format!("\"{text}\"")).expect_err(text);
        assert!(error.contains("line 2: addresses is") && error.contains("zipf-in-order:THETA"), "{error}");
    }
}

#[test]
fn what_a_drive_carries_is_stable() {
    let row = |writes: u32, done: u32| format!("4096000,{writes},5000,{done},100,300,500,\n");
    let rows: Vec<_> = [(10_000, 15_000), (70_000, 75_000), (90_000, 94_900), (200_000, 98_000)]
        .iter()
        .map(|&(writes, done)| row(writes, done))
        .collect();
    let measurements = parse(&rows.concat()).expect("valid");
    assert_eq!(measurements.saturation_s(Addresses::Uniform), Some(98_000.0));
    let stable: Vec<bool> = measurements.rows.iter().map(|row| measurements.is_stable(row)).collect();
    assert_eq!(stable, [true, true, false, false]);
}

#[test]
fn nonsense_is_refused_with_line_and_cure() {
    let fine = "4096000,10000,5000,15000,70,256,410,\n";
    for (row, expected) in [
        ("4096000,10000,5000,15000,300,256,410,", "line 3: read_p50_us is 300, more than read_p99_us, 256"),
        ("4096000,10000,5000,15000,0.07,0.256,0.41,", "no drive is that fast; latencies are in µs"),
        ("4096000,20000,5000,25000,70000000,90000000,91000000,", "more than a second: latencies are in µs"),
        ("4096000,20000,5000,25000,20000,90000,91000,", "is it in another unit? Latencies are in µs"),
        ("8192000,20000,5000,25000,70,256,410,", "but 4096000 in earlier rows: use one file for each drive"),
        ("4096000,20000,5000,35000,70,256,410,", "completed_s is 35000, but only 25000 were offered"),
        ("4096000,2000,5000,7000,70,256,410,", "the measured job writes as much as it reads"),
        ("4096000,20000,0,20000,70,256,410,", "read latencies, but offered_reads_s is 0"),
        (
            "4096000,10000,5000,15000,170,256,410,",
            "line 3: the same load as on line 2: give one row for each load; remove the wrong one",
        ),
        ("4096000,10000,5000,15000,70,256,410,", "the same load as on line 2"),
        (
            "4096000,20000,5000,25000,70,270000,,",
            "read_p99_us is 270000, more than 1000 times read_p50_us, 70",
        ),
        ("4096000,20000,5000,25000,70,256,410000,", "is one of them in another unit? Latencies are in µs"),
        (
            "4096000,20000,5000,25000,,256000,410000,",
            "in most other rows about 256000: is it in another unit?",
        ),
        ("4096000,20000,5000,25000,70,1e300,,", "read_p99_us is \"1e300\"; give a number above 0"),
        ("4096000,20000,5000,25000,70,1e400,,", "read_p99_us is \"1e400\"; give a number above 0"),
        ("4096000,20000,5000,25000,inf,256,,", "read_p50_us is \"inf\""),
        ("4096000,0,0,,,,,1.5", "offered_writes_s and offered_reads_s are 0: leave both empty if"),
        (
            "4096000,20000,,20000,,,,",
            "offered_reads_s is \"\"; give a number like the other rate, 0 for none",
        ),
        ("4096000,,5000,20000,70,256,,", "offered_writes_s is \"\"; give a number like the other rate"),
        (
            "4096000,50,5,55,70,256,,",
            "with less than 100 reads a second high percentiles are random; is it in thousands?",
        ),
        ("4096000,,,90000,70,256,,", "read latencies, but both offered rates are empty, so jobs only write"),
        ("4096000,,,,,,,", "the row has no measurement: remove it"),
        ("4096000,,,2e9,,,,", "no drive completes more than 1000000000 in a second"),
        ("4096000,20000,5000,25,70,256,,", "completed_s is 25 of 25000 offered, but on line 2 it is 15000"),
        (
            "4096000,8000,5000,12000,70,256,,",
            "completed_s is 12000 of 13000 offered, but on line 2 it is 15000",
        ),
        ("4096000,20000,5000,25000,70,256,410,0.5", "waf is 0.5"),
        ("4096000,1000000001,5000,,70,256,,", "a whole number up to 1,000,000,000"),
        ("4096000,20000.5,5000,,70,256,,", "offered_writes_s is \"20000.5\""),
        ("4096000,\"20,000\",5000,,70,256,,", "offered_writes_s is \"20,000\""),
        (
            "4096000,20,000,5000,,70,256,,",
            "line 3: 9 fields, but the heading has 8 columns: leave unknown values empty",
        ),
        ("4096000,20000,5000,25000,70,256,410,1000", "waf is 1000"),
        ("4096000,20k,5000,25000,70,256,410,", "offered_writes_s is \"20k\"; give requests per second"),
        (
            "4096000,20000,5000,25000,70us,256,410,",
            "read_p50_us is \"70us\"; give a number above 0 without a unit",
        ),
        ("4096000,20000,5000,25000,-70,256,410,", "read_p50_us is \"-70\""),
        ("4096000,20000,5000,25000,NaN,256,410,", "read_p50_us is \"NaN\""),
        (
            "4095,20000,5000,25000,70,256,410,",
            "capacity_bytes is \"4095\"; give whole bytes, a multiple of 4096",
        ),
        (",20000,5000,25000,70,256,410,", "capacity_bytes is \"\""),
        ("4096000,20000,5000", "line 3: 3 fields, but the heading has 8 columns"),
        ("\"4096000,20000,5000", "1 fields, but the heading has 8 columns"),
    ] {
        let error = parse(&format!("{fine}{row}\n")).expect_err(row);
        assert!(error.contains(expected), "{row}: {error}");
    }
    let of = |text: &str| Measurements::parse(text, "my.csv").expect_err(text).to_string();
    let missing = of("capacity_bytes,offered_writes_s,offered_reads_s,read_p50_us\n");
    assert!(missing.contains("the column read_p99_us is missing; needed are capacity_bytes"), "{missing}");
    let unknown = of("capacity_bytes,offered_write_s\n");
    assert!(unknown.contains("\"offered_write_s\", did you mean offered_writes_s (writes per"), "{unknown}");
    // The nearest name alone would hide that the unit is wrong.
    let ns = of("capacity_bytes,read_p99_ns\n");
    assert!(ns.contains("\"read_p99_ns\", did you mean read_p99_us (99th percentile in µs)?"), "{ns}");
    let twice = of("capacity_bytes,waf,waf\n");
    assert!(twice.contains("the column waf appears twice"), "{twice}");
    let used = of(
        "capacity_bytes,used_bytes,offered_writes_s,offered_reads_s,read_p50_us,read_p99_us\n4096,8192,,,,\n",
    );
    assert!(used.contains("used_bytes is 8192, more than capacity_bytes, 4096"), "{used}");
    for (text, expected) in [
        ("", "empty: the first line names the columns"),
        ("\n \n# nothing\n", "empty: the first line names the columns"),
        (
            "capacity_bytes;offered_writes_s;read_p50_us\n",
            "separated by semicolons or tabs: separate them by commas",
        ),
        ("capacity_bytes\toffered_writes_s\n", "separated by semicolons or tabs"),
        (&format!("{HEADING}\n"), "there are no rows: give one for each rate"),
        (&format!("{HEADING}\n{}", "4096000,10000,5000,,70,256,,\n".repeat(1001)), "more than 1000 rows"),
    ] {
        assert!(of(text).contains(expected), "{}", of(text));
    }
}

#[test]
fn rows_that_contradict_their_neighbours_are_refused() {
    const HEADING: &str =
        "capacity_bytes,used_bytes,offered_writes_s,offered_reads_s,read_p50_us,read_p99_us,write_p50_us,waf";
    let parse = |rows: &[&str]| {
        let text = format!("{HEADING}\n{}\n", rows.join("\n"));
        Measurements::parse(&text, "my.csv").map_err(|error| error.to_string())
    };
    let refused = |rows: &[&str], expected: &str| {
        let error = parse(rows).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    };
    let row =
        |writes: u32, read: f64, write: f64| format!("4096000,,{writes},5000,{read},{},{write},", 4.0 * read);
    // Sixty times its neighbours, in any row order. At the highest rate the same may be true.
    let (low, middle, high) = (row(10_000, 70.0, 9.0), row(20_000, 4200.0, 9.0), row(30_000, 75.0, 10.0));
    let expected =
        "line 4: read_p50_us is 4200, but 70 and 75 at the rates next to it: is it in another unit?";
    refused(&[&low, &high, &middle], expected);
    parse(&[&low, &high, &row(40_000, 4200.0, 9.0)]).expect("near saturation");
    refused(&[&low, &row(20_000, 71.0, 9100.0), &high], "line 3: write_p50_us is 9100, but 9 and 10");
    refused(
        &[&row(10_000, 70.0, 9000.0), &row(20_000, 71.0, 9100.0)],
        "line 2: write_p50_us is 9000, more than 100 times",
    );
    let waf = |used: u32, jobs: &str, waf: f64| format!("4096000,{used},{jobs},,,,{waf}");
    let (half, full) = (waf(2_048_000, ",", 1.4), waf(4_096_000, ",", 3.5));
    parse(&[&half, &full, &waf(4_096_000, "10000,5000", 3.6)]).expect("nearly the same");
    refused(
        &[&half, &full, &waf(4_096_000, "10000,5000", 9.9)],
        "line 4: waf is 9.9 with 4096000 bytes in use, but on line 3",
    );
    refused(
        &[&full, &waf(2_048_000, ",", 4.5)],
        "line 3: waf is 4.5 with 2048000 bytes in use, but on line 2 it is 3.5",
    );
}

/// A drive may pause for milliseconds at one rate and not at the next, so only a factor as large as a unit is a
/// fault.
#[test]
fn tails_of_writes_in_another_unit_are_refused() {
    let parse = |middle: f64| {
        let row = |writes: u32, p99: f64| format!("4096000,{writes},5000,70,280,11,{p99}\n");
        let heading = "capacity_bytes,offered_writes_s,offered_reads_s,read_p50_us,read_p99_us,write_p50_us,write_p99_us";
        let text = format!("{heading}\n{}{}{}", row(10_000, 14.0), row(20_000, middle), row(30_000, 15.0));
        Measurements::parse(&text, "my.csv").map_err(|error| error.to_string())
    };
    parse(4000.0).expect("a drive that stops");
    let error = parse(14_000.0).expect_err("in ns");
    assert!(
        error.contains("line 3: write_p99_us is 14000, but 14 and 15 at the rates next to it"),
        "{error}"
    );
}

#[test]
fn what_jobs_cannot_have_done_is_refused() {
    let heading = "capacity_bytes,used_bytes,jobs,queue_depth,offered_writes_s,offered_reads_s,read_p50_us,read_p99_us,\
                   write_p50_us,write_p99_us";
    let of =
        |row: &str| Measurements::parse(&format!("{heading}\n{row}\n"), "my.csv").map_err(|e| e.to_string());
    for (row, expected) in [
        (
            "409600000,,1,64,20000,5000,70,256,9,30",
            "jobs is 1, and this job writes as much as it reads, 5000 a second",
        ),
        ("409600000,,0,64,20000,5000,70,256,9,30", "jobs is \"0\"; give 1 to 256"),
        // Sectors instead of bytes.
        (
            "409600000,819200,7,64,20000,5000,70,256,9,30",
            "less than a hundredth of capacity_bytes, 409600000",
        ),
        ("409600000,,7,64,20000,5000,70,256,0.009,0.03", "write_p50_us is 0.009: no drive is that fast"),
        (
            "409600000,,7,64,20000,5000,70,256,9000000000,,",
            "write_p50_us is 9000000000, more than 100 seconds",
        ),
        (
            "409600000,,7,64,20000,5000,70000,256000,9,30",
            "queue_depth is 64: latencies are in µs, are these in ns?",
        ),
        ("409600000,,7,64,20000,5000,70,256,30000,60000", "requests outstanding, but queue_depth is 64"),
    ] {
        let row = row.trim_end_matches(',').to_owned() + if row.ends_with(",,") { "," } else { "" };
        let error = of(&row).expect_err(&row);
        assert!(error.contains(expected), "{row}: {error}");
    }
    // By hand: half of all reads take at least 12 ms, one in a hundred 24 ms, so the mean is at least 5,880 +
    // 240 µs. Writes take as long. At 5,000 of each per second 61 requests are in flight.
    assert!(of("409600000,,7,64,20000,5000,12000,24000,12000,24000").is_ok());
    let error = of("409600000,,7,26,20000,5000,12000,24000,,").expect_err("30 outstanding");
    assert!(error.contains("keep 31 requests outstanding, but queue_depth is 26"), "{error}");
    assert!(of("409600000,,1,64,5000,5000,70,256,9,30").is_ok(), "no other job writes");
}

#[test]
fn the_same_file_in_other_clothes_is_the_same() {
    let text =
        format!("{HEADING}\n4096000,10000,5000,15000,70,256,410,\n4096000,20000,5000,25000,80,300,,1.5\n");
    let plain = Measurements::parse(&text, "my.csv").expect("valid");
    for other in [
        format!("\u{feff}{text}"),
        text.replace('\n', "\r\n"),
        text.replace('\n', "\r"),
        text.trim_end().to_owned(),
        text.replace("4096000", "\"4096000\"").replace("waf", "\"waf\""),
        text.replace("0,5000", "0.0,5e3").replace("4096000", "4096000.0"),
        text.replace(',', " , "),
    ] {
        assert_eq!(Measurements::parse(&other, "my.csv").expect(&other), plain, "{other:?}");
    }
}

#[test]
fn lines_are_counted_as_an_editor_does() {
    for end in ["\n", "\r\n", "\r"] {
        let lines = [
            "# one",
            "",
            HEADING,
            "# four",
            "4096000,10000,5000,,70,256,,",
            "",
            "# seven",
            "",
            "4096000,1k,,,,,,",
        ];
        let error = Measurements::parse(&lines.join(end), "my.csv").expect_err("1k").to_string();
        assert!(error.contains("my.csv, line 9: offered_writes_s is \"1k\""), "{end:?}: {error}");
    }
}

#[test]
fn files_that_are_none_are_refused_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        Measurements::read(&path).expect_err(name).to_string()
    };
    assert!(of("huge", &vec![b'#'; (1 << 20) + 1]).contains("huge: more than 1 MiB"));
    let utf16: Vec<u8> = HEADING.encode_utf16().flat_map(u16::to_le_bytes).chain([0xff]).collect();
    assert!(of("utf16", &utf16).contains("not UTF-8 text: save it as"));
    let error = Measurements::read(std::path::Path::new("/dev/zero")).expect_err("zeros").to_string();
    assert!(error.contains("/dev/zero: more than 1 MiB"), "{error}");
    assert!(
        Measurements::read(folder.path()).is_err()
            && Measurements::read(&folder.path().join("none")).is_err()
    );
}

#[test]
fn any_bytes_are_read_or_refused() {
    let heading: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    for (at, _) in COLUMNS.iter().enumerate() {
        for odd in [
            "",
            "-1",
            "0",
            "1e999",
            "18446744073709551616",
            "\u{feff}",
            "\"",
            "a,b",
            "inf",
            " 7 ",
            "0x10",
            "\0",
            "_",
            "5e-324",
            "zipf:5e-324",
            "zipf-in-order:\u{feff}",
        ] {
            let mut fields: Vec<String> = heading.iter().map(|_| "4096".to_owned()).collect();
            fields[heading.len() - 1] = "1.5".into();
            for (name, value) in [("addresses", "zipf:0.8"), ("jobs", "7")] {
                let place = heading.iter().position(|column| *column == name).expect("a column");
                fields[place] = value.into();
            }
            let text = |fields: &[String]| format!("{}\n{}\n", heading.join(","), fields.join(","));
            Measurements::parse(&text(&fields), "even.csv").expect("valid but for what is odd");
            fields[at] = odd.to_owned();
            let _ = Measurements::parse(&text(&fields), "odd.csv");
        }
    }
}
