use super::*;

fn split(shares: &[(u32, f64)]) -> Vec<BlockShare> {
    shares.iter().map(|&(block_bytes, percent)| BlockShare { block_bytes, percent }).collect()
}

fn mixed(kind: Kind) -> SyntheticConfig {
    SyntheticConfig { block_split: split(&[(4096, 60.0), (65536, 30.0), (512, 10.0)]), ..config(kind) }
}

#[test]
fn sizes_come_as_often_as_their_shares_say_and_stay_in_the_range() {
    for kind in [Kind::Uniform, Kind::Sequential, Kind::Zipf] {
        let config = SyntheticConfig { offset_bytes: 8192, size_bytes: Some(1 << 20), ..mixed(kind) };
        let requests = requests(&config, 2 << 20, 1, 100_000);
        for (sectors, share) in [(8, 0.6), (128, 0.3), (1, 0.1)] {
            let found = requests.iter().filter(|r| r.sectors == sectors).count() as f64 / 1e5;
            // The end of the range cuts the last request of a sequential pass, long requests more often than
            // short ones.
            let most = if kind == Kind::Sequential { 0.08 } else { 0.03 };
            assert!((found / share - 1.0).abs() < most, "{kind:?}: {found} of {sectors} sectors");
        }
        let ends = requests.iter().map(|r| r.lba.get() + u64::from(r.sectors));
        assert_eq!(ends.max(), Some(16 + 2048), "{kind:?}: the end of the range is reached, not passed");
        assert!(requests.iter().all(|r| r.lba.get() >= 16), "{kind:?}");
    }
}

#[test]
fn sequential_requests_of_any_size_follow_each_other() {
    let requests = requests(&mixed(Kind::Sequential), 1 << 20, 1, 10_000);
    let mut rounds = 0;
    for pair in requests.windows(2) {
        let end = pair[0].lba.get() + u64::from(pair[0].sectors);
        assert!(pair[1].lba.get() == end || pair[1].lba.get() == 0, "{pair:?}");
        rounds += usize::from(pair[1].lba.get() == 0);
    }
    assert!(rounds > 50, "{rounds}");
}

#[test]
fn sizes_leave_addresses_and_operations_as_they_are() {
    let base = SyntheticConfig { block_bytes: 512, write_fraction: 0.5, ..config(Kind::Uniform) };
    let one = requests(&base, 1 << 30, 3, 1000);
    let several = SyntheticConfig { write_fraction: 0.5, ..mixed(Kind::Uniform) };
    for (a, b) in one.iter().zip(requests(&several, 1 << 30, 3, 1000)) {
        assert!((a.op, a.lba) == (b.op, b.lba) || b.lba.get() + 128 >= 1 << 21, "{a:?} {b:?}");
    }
    assert!((mixed(Kind::Uniform).mean_bytes() - (2457.6 + 19660.8 + 51.2)).abs() < 1e-9);
}

#[test]
fn wrong_splits_are_refused() {
    for (shares, message) in [
        (
            &[(4096, 50.0), (8192, 40.0)][..],
            "block_split.percent is a sum of 90, it must be 100 for all sizes together",
        ),
        (
            &[(4096, 0.0), (8192, 100.0)],
            "block_split.percent is 0, it must be greater than 0 and at most 100",
        ),
        (&[(1000, 100.0)], "block_split.block_bytes is 1000, it must be a multiple of 512, at least 512"),
        (
            &[(512, 50.0), (2 << 20, 50.0)],
            "block_split.block_bytes is 2097152, it must be at most the 1048576 bytes of the range",
        ),
    ] {
        let config = SyntheticConfig { block_split: split(shares), ..config(Kind::Uniform) };
        assert_eq!(config.build(1 << 20, 1).expect_err("wrong").to_string(), message);
    }
    let trims = SyntheticConfig { trim_fraction: 0.1, ..mixed(Kind::Uniform) };
    assert!(trims.build(1 << 20, 1).expect_err("wrong").to_string().contains("a trim covers a slot"));
}
