use super::*;
use proptest::prelude::*;
use serde::Deserialize;

fn first(config: &SyntheticConfig, slots: u64, count: usize) -> Vec<(&'static str, u64)> {
    requests(config, drive(slots), 1, count).iter().map(|r| (r.op.name(), r.lba.get() / 8)).collect()
}

// From an independent Python implementation. A change here changes every published result.
#[test]
fn first_requests_of_seed_one_are_frozen() {
    let frozen: [(SyntheticConfig, [u64; 8]); 5] = [
        (config(Kind::Uniform), [468637, 467120, 225680, 136173, 950034, 613189, 294586, 443408]),
        (config(Kind::Zipf), [803300, 39366, 223854, 517088, 0, 506561, 193712, 906587]),
        (SyntheticConfig { scatter: false, ..config(Kind::Zipf) }, [100, 102, 4238, 26336, 0, 17, 1264, 139]),
        (config(Kind::Hotcold), [114992, 510722, 306183, 784473, 133705, 728207, 517216, 409523]),
        (config(Kind::Gaussian), [395725, 390682, 482101, 476261, 525842, 506499, 413137, 476069]),
    ];
    for (config, slots) in frozen {
        assert_eq!(first(&config, 1_000_000, 8), slots.map(|slot| ("write", slot)), "{:?}", config.kind);
    }
    let half = SyntheticConfig { write_fraction: 0.5, ..config(Kind::Sequential) };
    let ops = ["write", "read", "write", "read", "write", "write", "read", "write"];
    let expected: Vec<_> = ops.into_iter().zip([0, 0, 1, 1, 2, 3, 2, 4]).collect();
    assert_eq!(first(&half, 1_000_000, 8), expected);
}

#[test]
fn first_requests_with_trims_are_frozen() {
    let config = SyntheticConfig { trim_fraction: 0.3, write_fraction: 0.75, ..config(Kind::Uniform) };
    let expected = [
        ("trim", 7),
        ("read", 4),
        ("write", 4),
        ("write", 2),
        ("read", 1),
        ("write", 9),
        ("write", 6),
        ("write", 2),
        ("write", 4),
        ("trim", 4),
        ("write", 3),
        ("trim", 5),
        ("write", 6),
        ("read", 4),
        ("trim", 8),
        ("trim", 3),
    ];
    assert_eq!(first(&config, 10, 16), expected);
}

#[test]
fn addresses_do_not_depend_on_the_share_of_writes() {
    for kind in [Kind::Uniform, Kind::Zipf, Kind::Hotcold, Kind::Gaussian] {
        let addresses = |write_fraction| -> Vec<_> {
            let config = SyntheticConfig { write_fraction, ..config(kind) };
            requests(&config, drive(1000), 5, 1000).iter().map(|r| r.lba).collect()
        };
        assert_eq!(addresses(1.0), addresses(0.5));
        assert_eq!(addresses(1.0), addresses(0.0));
    }
}

#[test]
fn requests_lie_behind_the_offset_and_leave_the_remainder_alone() {
    let config = SyntheticConfig {
        block_bytes: 1536,
        offset_bytes: 512,
        size_bytes: Some(1536 * 3 + 1535),
        ..config(Kind::Sequential)
    };
    let starts: Vec<_> = requests(&config, 1 << 20, 1, 4).iter().map(|r| (r.lba.get(), r.sectors)).collect();
    assert_eq!(starts, [(1, 3), (4, 3), (7, 3), (1, 3)]);
    let workload = config.build(1 << 20, 1).expect("valid");
    assert_eq!((workload.slots(), workload.slots_in_use(), workload.span_bytes()), (3, 3, 4608));
}

#[test]
fn every_kind_is_listed_under_its_name_with_real_keys() {
    let schema = schemars::schema_for!(SyntheticConfig);
    let properties = schema.get("properties").expect("an object");
    let kinds = [Kind::Uniform, Kind::Sequential, Kind::Zipf, Kind::Hotcold, Kind::Gaussian];
    assert_eq!(list().len(), kinds.len());
    for (info, kind) in list().iter().zip(kinds) {
        assert_eq!(info.name, kind.name());
        assert_eq!(config(kind).build(1 << 20, 1).expect("valid").name(), info.name);
        for key in info.keys {
            assert!(properties.get(key).is_some(), "{key}");
        }
        let value = schemars::json_schema!({ "kind": info.name }).to_value();
        assert_eq!(SyntheticConfig::deserialize(value).expect("the name is the value of kind"), config(kind));
    }
}

#[test]
fn schema_states_ranges_and_defaults() {
    let schema = schemars::schema_for!(SyntheticConfig);
    let number = |key: &str, keyword: &str| {
        schema.get("properties").and_then(|p| p.get(key)?.get(keyword)?.as_f64()).unwrap_or(f64::NAN)
    };
    for (key, keyword, value) in [
        ("write_fraction", "minimum", 0.0),
        ("write_fraction", "maximum", 1.0),
        ("write_fraction", "default", 1.0),
        ("block_bytes", "minimum", 512.0),
        ("block_bytes", "multipleOf", 512.0),
        ("size_bytes", "minimum", 512.0),
        ("theta", "minimum", 0.0),
        ("theta", "default", 1.1),
        ("hot_share", "maximum", 0.48),
        ("sigma", "exclusiveMinimum", 0.0),
    ] {
        assert_eq!(number(key, keyword), value, "{key} {keyword}");
    }
    assert_eq!(schema.get("additionalProperties").and_then(|v| v.as_bool()), Some(false));
}

#[test]
fn zipf_with_an_exponent_of_zero_is_uniform_draw_for_draw() {
    for (scatter, write_fraction) in [(true, 1.0), (false, 0.5)] {
        let uniform = SyntheticConfig { write_fraction, ..config(Kind::Uniform) };
        let zipf = SyntheticConfig { kind: Kind::Zipf, theta: 0.0, scatter, ..uniform.clone() };
        let [one, other] = [uniform, zipf].map(|config| {
            let mut batch = Vec::new();
            config.build(1 << 30, 7).expect("valid").fill(&mut batch, 1000);
            batch
        });
        assert_eq!(one, other);
    }
}

#[test]
fn unknown_keys_are_refused() {
    let value = schemars::json_schema!({ "kind": "zipf", "tetha": 1.2 }).to_value();
    let error = SyntheticConfig::deserialize(value).expect_err("a misspelt key");
    assert!(error.to_string().contains("unknown field `tetha`"), "{error}");
}

fn any_config() -> impl Strategy<Value = SyntheticConfig> {
    let share = || prop_oneof![6 => 0.0..=1.0f64, 1 => any::<f64>(), 1 => Just(0.0), 1 => Just(1.0)];
    let kind = prop_oneof![
        Just(Kind::Uniform),
        Just(Kind::Sequential),
        Just(Kind::Zipf),
        Just(Kind::Hotcold),
        Just(Kind::Gaussian),
    ];
    let block = prop_oneof![4 => (1u32..40).prop_map(|sectors| sectors * 512), 1 => any::<u32>()];
    let shared = |block_bytes, percent| BlockShare { block_bytes, percent };
    let split = prop_oneof![
        5 => Just(Vec::new()),
        2 => (1u32..40, 1u32..40, 1u8..100).prop_map(move |(one, other, percent)| vec![
            shared(one * 512, f64::from(percent)), shared(other * 512, f64::from(100 - percent)),
        ]),
        1 => (any::<u32>(), any::<f64>()).prop_map(move |(bytes, percent)| vec![shared(bytes, percent)]),
    ];
    let offset = prop_oneof![4 => (0u64..1000).prop_map(|sectors| sectors * 512), 1 => any::<u64>()];
    let size = prop_oneof![2 => Just(None), 4 => (0u64..1 << 20).prop_map(Some), 1 => any::<Option<u64>>()];
    let theta = prop_oneof![4 => 0.0..4.0f64, 1 => 0.0..=100.0f64, 1 => any::<f64>()];
    let width = || prop_oneof![2 => Just(None), 3 => (0.0..0.5f64).prop_map(Some), 1 => any::<Option<f64>>()];
    (
        (kind, share(), share(), 0u32..300, block, offset, size, split),
        (any::<bool>(), theta, share(), share(), width(), width(), share(), any::<bool>()),
    )
        .prop_map(|(first, second)| {
            let (
                kind,
                write_fraction,
                trim_fraction,
                trim_ranges,
                block_bytes,
                offset_bytes,
                size_bytes,
                block_split,
            ) = first;
            let (random_map, theta, hot_fraction, hot_write_share, sigma, hot_share, uniform_share, scatter) =
                second;
            SyntheticConfig {
                kind,
                write_fraction,
                trim_fraction,
                trim_ranges,
                block_bytes,
                block_split,
                offset_bytes,
                size_bytes,
                random_map,
                theta,
                hot_fraction,
                hot_write_share,
                sigma,
                hot_share,
                uniform_share,
                scatter,
            }
        })
}

proptest! {
    // Refused configurations do not count; at least one in nineteen must be valid.
    #![proptest_config(ProptestConfig { max_global_rejects: 36_000, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn any_configuration_is_refused_or_stays_in_its_range(
        config in any_config(),
        drive_bytes in prop_oneof![4 => 0u64..1 << 21, 1 => any::<u64>()],
        seed: u64,
    ) {
        let workload = config.build(drive_bytes, seed);
        prop_assume!(workload.is_ok());
        let mut workload = workload.expect("it is ok");
        let end = config.size_bytes.map_or(drive_bytes, |size| config.offset_bytes + size);
        prop_assert!(end <= drive_bytes);
        let mut batch = vec![Request::FLUSH; 3];
        for count in [0, 1, 200] {
            workload.fill(&mut batch, count);
            prop_assert_eq!(batch.len(), count);
            for request in &batch {
                let start = request.lba.get() * SECTOR_BYTES;
                let length = u64::from(request.sectors) * SECTOR_BYTES;
                prop_assert!(start >= config.offset_bytes && start + length <= end);
                if config.block_split.is_empty() {
                    prop_assert_eq!(length, u64::from(config.block_bytes));
                    prop_assert_eq!((start - config.offset_bytes) % length, 0);
                } else {
                    let sizes = || config.block_split.iter().map(|share| u64::from(share.block_bytes));
                    let is_cut = config.kind == Kind::Sequential || config.random_map;
                    prop_assert!(sizes().any(|size| size == length || is_cut && length < size));
                }
                prop_assert!(request.op != Op::Flush);
            }
        }
    }

    #[test]
    fn same_seed_same_requests(config in any_config(), seed: u64) {
        let twins = [(); 2].map(|()| config.build(1 << 21, seed));
        prop_assume!(twins[0].is_ok());
        let [mut one, mut other] = twins.map(|workload| workload.expect("both are ok"));
        let (mut whole, mut part, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        one.fill(&mut whole, 100);
        for count in [1, 32, 0, 67] {
            other.fill(&mut part, count);
            parts.append(&mut part);
        }
        prop_assert_eq!(whole, parts);
    }
}
