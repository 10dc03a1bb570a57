//! Files of measurements: what is read from them, and what is refused, with the line and the cure.

use strobe_twin::measurements::{COLUMNS, Measurements, Offered};

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
fn what_a_drive_carries_is_stable() {
    let row = |writes: u32, done: u32| format!("4096000,{writes},5000,{done},100,300,500,\n");
    let rows: Vec<_> = [(10_000, 15_000), (70_000, 75_000), (90_000, 94_900), (200_000, 98_000)]
        .iter()
        .map(|&(writes, done)| row(writes, done))
        .collect();
    let measurements = parse(&rows.concat()).expect("valid");
    assert_eq!(measurements.saturation_s(), Some(98_000.0));
    let stable: Vec<bool> = measurements.rows.iter().map(|row| measurements.is_stable(row)).collect();
    // 95,000 is more than 95 % of 98,000.
    assert_eq!(stable, [true, true, false, false]);
}

#[test]
fn nonsense_is_refused_with_line_and_cure() {
    let fine = "4096000,10000,5000,15000,70,256,410,\n";
    for (row, expected) in [
        ("4096000,10000,5000,15000,300,256,410,", "line 3: read_p50_us is 300, more than read_p99_us, 256"),
        ("4096000,10000,5000,15000,0.07,0.256,0.41,", "no drive reads flash in that; latencies are in µs"),
        ("4096000,20000,5000,25000,70000000,90000000,91000000,", "more than a second: latencies are in µs"),
        ("4096000,20000,5000,25000,20000,90000,91000,", "is it in another unit? Latencies are in µs"),
        ("8192000,20000,5000,25000,70,256,410,", "a file is about one drive"),
        ("4096000,20000,5000,35000,70,256,410,", "completed_s is 35000, but only 25000 were offered"),
        ("4096000,2000,5000,7000,70,256,410,", "the job that is looked at writes as much as it reads"),
        ("4096000,20000,0,20000,70,256,410,", "latencies of reads, but offered_reads_s is 0"),
        ("4096000,10000,5000,15000,170,256,410,", "on line 2 with the same load it is 70"),
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
        ("4096000,20000,5000", "my.csv: CSV error"),
    ] {
        let error = parse(&format!("{fine}{row}\n")).expect_err(row);
        assert!(error.contains(expected), "{row}: {error}");
    }
    let of = |text: &str| Measurements::parse(text, "my.csv").expect_err(text).to_string();
    let missing = of("capacity_bytes,offered_writes_s,offered_reads_s,read_p50_us\n");
    assert!(missing.contains("the column read_p99_us is missing; needed are capacity_bytes"), "{missing}");
    let unknown = of("capacity_bytes,offered_write_s\n");
    assert!(unknown.contains("\"offered_write_s\", did you mean offered_writes_s?"), "{unknown}");
    let twice = of("capacity_bytes,waf,waf\n");
    assert!(twice.contains("line 1: the column waf is there twice"), "{twice}");
    let used = of(
        "capacity_bytes,used_bytes,offered_writes_s,offered_reads_s,read_p50_us,read_p99_us\n4096,8192,,,,\n",
    );
    assert!(used.contains("used_bytes is 8192, more than capacity_bytes, 4096"), "{used}");
}

#[test]
fn any_bytes_are_read_or_refused() {
    // Every column with every odd text in it, one at a time.
    let heading: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    for (at, _) in COLUMNS.iter().enumerate() {
        for odd in
            ["", "-1", "0", "1e999", "18446744073709551616", "\u{feff}", "\"", "a,b", "inf", " 7 ", "0x10"]
        {
            let mut fields: Vec<String> = heading.iter().map(|_| "4096".to_owned()).collect();
            fields[at] = odd.to_owned();
            let text = format!("{}\n{}\n", heading.join(","), fields.join(","));
            let _ = Measurements::parse(&text, "odd.csv");
        }
    }
}
