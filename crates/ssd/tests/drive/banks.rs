//! Banks of a controller of 2009: a page's address decides its bank, and all banks share one waiting slot.

use strobe_ssd::{DieAllocation, DriveConfig, GcMode, Issue, build};
use strobe_types::{Lpn, Prng, Request};

use crate::setup::{closed, shaped, write};

const BANKS: u64 = 8;
/// Sectors of a page.
const PAGE: u32 = 16;
const PAGES: u32 = 30_720;
const PROGRAM_NS: u64 = 1_300_000;
/// 8 KiB at 40 MB/s.
const TRANSFER_NS: u64 = 204_800;

fn board(die_allocation: DieAllocation, issue: Issue) -> DriveConfig {
    let mut config = shaped(2, 4, 1);
    (config.nand.blocks_per_plane, config.nand.pages_per_block, config.nand.page_bytes) = (40, 128, 8192);
    (config.nand.program_ns, config.nand.channel_mb_s) = (PROGRAM_NS.into(), 40);
    (config.ftl.mapping_unit_bytes, config.ftl.logical_pages) = (8192, Some(PAGES));
    (config.ftl.die_allocation, config.controller.issue) = (die_allocation, issue);
    config
}

/// 8192 pages; random addresses are multiples of `pages`.
fn requests(pages: u32, is_random: bool) -> Vec<Request> {
    let mut rng = Prng::new(1);
    (0..8192 / pages)
        .map(|at| if is_random { rng.below(PAGES / pages) } else { at })
        .map(|at| write(u64::from(at * pages * PAGE), pages * PAGE))
        .collect()
}

fn time(config: &DriveConfig, requests: &[Request]) -> f64 {
    let mut drive = build(config, true, 1).expect("builds");
    let mut queue = closed(64);
    drive.run(requests, &[], &mut queue).expect("runs");
    drive.check().expect("sound");
    queue.finished().as_ns() as f64
}

/// Oracle: a page of bank `page % 8` waits for its bank and its bus, and holds up all pages behind it.
fn naive(requests: &[Request]) -> f64 {
    let (mut busy, mut bus, mut now) = ([0; BANKS as usize], [0; 2], 0);
    let first = |request: &Request| request.lba.get() / u64::from(PAGE);
    let pages = requests.iter().flat_map(|one| first(one)..first(one) + u64::from(one.sectors / PAGE));
    for page in pages {
        let (bank, channel) = ((page % BANKS) as usize, (page % 2) as usize);
        now = now.max(busy[bank]).max(bus[channel]);
        bus[channel] = now + TRANSFER_NS;
        busy[bank] = now + TRANSFER_NS + PROGRAM_NS;
    }
    busy.into_iter().max().expect("banks") as f64
}

#[test]
fn small_random_writes_leave_banks_idle() {
    let config = board(DieAllocation::ByAddress, Issue::InOrder);
    let in_order = requests(1, false);
    let sequential = time(&config, &in_order);
    assert!((sequential / naive(&in_order) - 1.0).abs() < 0.02);
    for (pages, share) in [(1, 0.37), (2, 0.51)] {
        let random = requests(pages, true);
        let measured = sequential / time(&config, &random);
        let expected = naive(&in_order) / naive(&random);
        assert!(
            (measured / expected - 1.0).abs() < 0.03,
            "{pages} pages: {measured}, the rule says {expected}"
        );
        assert!((measured - share).abs() < 0.02, "{pages} pages: {measured}");
    }
}

#[test]
fn either_key_alone_costs_less_and_a_stripe_nothing() {
    let random = requests(1, true);
    let speed = |die_allocation, issue| {
        let config = board(die_allocation, issue);
        time(&config, &requests(1, false)) / time(&config, &random)
    };
    let striped = speed(DieAllocation::Stripe, Issue::InOrder);
    assert!((striped - 1.0).abs() < 0.01, "{striped}");
    let fixed = speed(DieAllocation::ByAddress, Issue::PerDie);
    assert!((0.8..0.97).contains(&fixed), "{fixed}: 64 requests keep most banks at work");
}

#[test]
fn background_collection_keeps_pages_in_their_banks() {
    let at_home = |mode| {
        let mut config = board(DieAllocation::ByAddress, Issue::PerDie);
        config.ftl.gc.mode = mode;
        let mut drive = build(&config, true, 1).expect("builds");
        let mut queue = closed(64);
        for seed in 0..8 {
            let mut rng = Prng::new(seed);
            let writes: Vec<Request> = (0..8192)
                .map(|_| write(u64::from(rng.below(PAGES / 8) * 8 + rng.below(8)) * u64::from(PAGE), PAGE))
                .collect();
            drive.run(&writes, &[], &mut queue).expect("runs");
        }
        drive.check().expect("sound");
        assert!(drive.stats().gc.units_moved > 4096, "{mode:?}: {:?}", drive.stats().gc);
        // Planes of the first pages tell which plane is whose.
        let plane = |page: u32| drive.locate(Lpn::new(page)).map(|(block, _)| block.get() / 40);
        let mut counts = [[0; BANKS as usize]; BANKS as usize];
        let places = (0..PAGES).filter_map(|page| Some((page, plane(page)?)));
        places.for_each(|(page, plane)| counts[page as usize % 8][plane as usize] += 1);
        let own: u32 = counts.iter().map(|planes| planes.iter().max().copied().unwrap_or(0)).sum();
        f64::from(own) / f64::from(counts.iter().flatten().sum::<u32>())
    };
    let [stopped, background] = [GcMode::StopTheWorld, GcMode::Background].map(at_home);
    assert!(stopped > 0.85 && background > stopped - 0.02, "{stopped} and {background} of the pages");
}
