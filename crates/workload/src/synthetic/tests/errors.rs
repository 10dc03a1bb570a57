use super::*;

#[track_caller]
fn assert_refused(config: SyntheticConfig, drive_bytes: u64, message: &str) {
    let error = config.build(drive_bytes, 1).expect_err("a wrong configuration");
    assert_eq!(error.to_string(), message);
}

fn base() -> SyntheticConfig {
    SyntheticConfig::default()
}

#[test]
fn block_sizes() {
    for block_bytes in [0, 1, 511, 513, 4095] {
        let message = format!("block_bytes is {block_bytes}, it must be a multiple of 512, at least 512");
        assert_refused(SyntheticConfig { block_bytes, ..base() }, 1 << 20, &message);
    }
    assert_refused(base(), 4095, "block_bytes is 4096, it must be at most the 4095 bytes of the drive");
    assert_refused(base(), 0, "block_bytes is 4096, it must be at most the 0 bytes of the drive");
    assert_refused(
        SyntheticConfig { block_bytes: 512, ..base() },
        512 << 32,
        "block_bytes is 512, it must be larger: the range of 2199023255552 bytes has 4294967296 blocks, \
         at most 4294967295 are possible",
    );
    assert!(SyntheticConfig { block_bytes: 512, ..base() }.build(512 * u64::from(u32::MAX), 1).is_ok());
}

#[test]
fn ranges_beyond_the_drive() {
    let size = |size_bytes| SyntheticConfig { size_bytes: Some(size_bytes), offset_bytes: 4096, ..base() };
    assert_refused(
        size(8193),
        12288,
        "size_bytes is 8193, it must be from block_bytes = 4096 to 8192, the rest of the drive after \
         offset_bytes",
    );
    assert_refused(
        size(4095),
        12288,
        "size_bytes is 4095, it must be from block_bytes = 4096 to 8192, the rest of the drive after \
         offset_bytes",
    );
    assert!(size(8192).build(12288, 1).is_ok());
    assert_refused(
        SyntheticConfig { offset_bytes: 8704, ..base() },
        12288,
        "offset_bytes is 8704, it must be at most 8192, so that one block of 4096 bytes fits on the drive \
         of 12288 bytes",
    );
    let far = u64::MAX - 511;
    assert_refused(
        SyntheticConfig { offset_bytes: far, ..base() },
        12288,
        &format!(
            "offset_bytes is {far}, it must be at most 8192, so that one block of 4096 bytes fits on the \
             drive of 12288 bytes"
        ),
    );
    assert_refused(
        SyntheticConfig { offset_bytes: 100, ..base() },
        12288,
        "offset_bytes is 100, it must be a multiple of 512",
    );
}

#[test]
fn shares() {
    for (value, text) in [(-0.1, "-0.1"), (1.5, "1.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        for (key, config) in [
            ("write_fraction", SyntheticConfig { write_fraction: value, ..base() }),
            ("trim_fraction", SyntheticConfig { trim_fraction: value, ..base() }),
            ("hot_write_share", SyntheticConfig { hot_write_share: value, ..base() }),
        ] {
            assert_refused(config, 1 << 20, &format!("{key} is {text}, it must be from 0 to 1"));
        }
    }
    for (value, text) in [(0.0, "0"), (1.0, "1"), (f64::NAN, "NaN")] {
        assert_refused(
            SyntheticConfig { hot_fraction: value, ..base() },
            1 << 20,
            &format!("hot_fraction is {text}, it must be greater than 0 and less than 1"),
        );
    }
}

#[test]
fn shapes() {
    for (value, text) in [(-1.0, "-1"), (f64::NAN, "NaN"), (101.0, "101")] {
        assert_refused(
            SyntheticConfig { theta: value, ..config(Kind::Zipf) },
            1 << 20,
            &format!("theta is {text}, it must be from 0 to 100"),
        );
    }
    for (value, text) in [(0.0, "0"), (-1.0, "-1"), (f64::NAN, "NaN"), (101.0, "101")] {
        assert_refused(
            SyntheticConfig { sigma: Some(value), ..config(Kind::Gaussian) },
            1 << 20,
            &format!("sigma is {text}, it must be greater than 0 and at most 1"),
        );
        assert_refused(
            SyntheticConfig { hot_share: Some(value), ..config(Kind::Gaussian) },
            1 << 20,
            &format!("hot_share is {text}, it must be greater than 0 and at most 0.48"),
        );
    }
    for (value, text) in [(-0.1, "-0.1"), (1.1, "1.1"), (f64::NAN, "NaN")] {
        assert_refused(
            SyntheticConfig { uniform_share: value, ..config(Kind::Gaussian) },
            1 << 20,
            &format!("uniform_share is {text}, it must be from 0 to 1"),
        );
    }
    assert_refused(
        SyntheticConfig { sigma: Some(0.1), hot_share: Some(0.2), ..config(Kind::Gaussian) },
        1 << 20,
        "sigma and hot_share are both given, but each determines the other; give one of them",
    );
}

#[test]
fn trims_on_a_drive_too_large_to_follow_are_refused_or_cheap() {
    // 32 GiB of tables: either the system refuses, or no page is touched yet.
    let config = SyntheticConfig { trim_fraction: 0.1, block_bytes: 512, ..base() };
    match config.build(512 * u64::from(u32::MAX), 1) {
        Ok(mut workload) => workload.fill(&mut Vec::new(), 1000),
        Err(error) => assert!(matches!(error, WorkloadError::Memory { .. }), "{error}"),
    }
}

#[test]
fn ranges_of_trims() {
    for value in [0, 257] {
        assert_refused(
            SyntheticConfig { trim_ranges: value, ..base() },
            1 << 20,
            &format!("trim_ranges is {value}, it must be from 1 to 256"),
        );
    }
}
