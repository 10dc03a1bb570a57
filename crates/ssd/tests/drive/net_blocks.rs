use strobe_ssd::{Allocation, GcStream, POLICIES, SchemeName, build};

use super::setup::{Host as _, T0, config, unit_writes, write_unit};

/// DiskSim's SSD extension (`ssd_clean`) starts cleaning at `low` erased blocks and stops above `low` + 1,
/// with any policy. With `net_blocks` = 2 every second block of the host starts a collection.
#[test]
fn a_collection_gains_net_blocks_whatever_the_policy() {
    for policy in POLICIES {
        for migration in [SchemeName::None, SchemeName::HotCold] {
            for net_blocks in [1, 2, 4] {
                let mut config = config();
                config.ftl.gc.victim = policy.name.to_owned();
                config.ftl.placement.scheme = migration.into();
                config.ftl.gc.stream = GcStream::Own;
                config.ftl.allocation = Allocation::LeastErased;
                // Starts with less than 8, that is at 7.
                config.ftl.gc.min_free_blocks = 8;
                config.ftl.gc.net_blocks = net_blocks;
                config.ftl.logical_pages = Some(130);
                let mut drive = build(&config, false, 1).expect("valid");
                for unit in 0..130 {
                    drive.request(T0, write_unit(unit)).expect("fills");
                }
                let (mut blocks, mut runs, mut seen) = (0, 0, Vec::new());
                for (at, request) in unit_writes(130, 4000, 9).into_iter().enumerate() {
                    let before = (drive.free_blocks(), drive.stats().gc.runs);
                    drive.request(T0, request).expect("runs");
                    // A block of the host has 8 pages; after the fill its last block has 2.
                    blocks += u32::from(at % 8 == 6);
                    if drive.stats().gc.runs > before.1 && at > 1000 {
                        runs += 1;
                        seen.push((before.0, drive.free_blocks()));
                    }
                    if at <= 1000 {
                        blocks = 0;
                    }
                }
                // The host opens one of the gained blocks at once.
                let expected = (7, 7 + net_blocks - 1);
                let what = format!("{} {migration:?} net {net_blocks}", policy.name);
                assert!(seen.iter().all(|&seen| seen == expected), "{what}: {seen:?}, not {expected:?}");
                assert!(runs * net_blocks <= blocks + 4 && blocks <= runs * net_blocks + 4, "{what}: {runs}");
            }
        }
    }
}
