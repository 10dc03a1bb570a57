//! Limits at their boundary: the read that makes a block due for refresh, and the last blocks for host and
//! SLC cache.

use strobe_ftl::gc::Greedy;
use strobe_ftl::{
    DataTag, FtlError, GcStream, Inspectable, MappingScheme, PageMap, PageMapConfig, Refresh, SlcConfig,
    Watermarks, WhenFull, WriteContext,
};
use strobe_nand::{
    ArrayTiming, Chip, Class, Lasts, Nand, RetryConfig, SlcMode, StampMedium, Timing, TimingConfig, Unit,
    Untimed, WearConfig, When,
};
use strobe_types::{Geometry, GeometrySpec, Lpn, Prng};

const BLOCKS: u32 = 40;
const PAGES: u32 = 6;

fn geometry() -> Geometry {
    let spec = GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: BLOCKS,
        pages_per_block: PAGES,
        page_bytes: 512,
        unit_bytes: 512,
    };
    Geometry::new(spec).expect("valid")
}

fn write<N: Nand<Payload = u64>>(map: &mut PageMap<N, Greedy>, lpn: u32) {
    map.write(When::START, &[Unit { lpn: Lpn::new(lpn), payload: 1 }], WriteContext::HOST).expect("has room");
}

#[test]
fn a_block_is_refreshed_with_the_read_that_reaches_the_limit() {
    const READS: u32 = 5;
    let retries = RetryConfig { per_kread: 1e-9, ..RetryConfig::default() };
    let chip: Chip<Untimed, StampMedium> =
        Chip::new(geometry(), WearConfig::default(), Untimed::default(), 1).with_retries(retries, 1);
    let refresh = Some(Refresh { reads: Some(READS), after_ns: None });
    let config = PageMapConfig { refresh, ..PageMapConfig::new(60) };
    let mut map = PageMap::new(chip, Greedy::new(BLOCKS), config).expect("room");
    (0..2 * PAGES).for_each(|lpn| write(&mut map, lpn));
    for read in 1..=READS {
        assert_eq!(map.stats().gc.refreshed_blocks, 0, "before read {read}");
        map.read(When::START, Lpn::new(0), 1, &mut Vec::new()).expect("reads");
    }
    assert_eq!(map.stats().gc.refreshed_blocks, 1);
}

/// A host that waits only for blocks: collection completes nothing while time stands still.
fn waits_for_blocks_only() -> PageMap<Chip<ArrayTiming, StampMedium>, Greedy> {
    let times = TimingConfig { program_ns: 10.into(), ..TimingConfig::default() };
    let chip = Chip::new(geometry(), WearConfig::default(), ArrayTiming::new(times, &geometry()), 1);
    let watermarks = Some(Watermarks { high: BLOCKS, low: 0, victims: 1, read_pages: 8 });
    let config = PageMapConfig { watermarks, ..PageMapConfig::new(150) };
    PageMap::new(chip, Greedy::new(BLOCKS), config).expect("room")
}

#[test]
fn the_host_opens_blocks_down_to_those_that_are_kept() {
    let mut map = waits_for_blocks_only();
    let kept = PageMapConfig::new(150).least_free_blocks(&geometry());
    let mut lpn = 0;
    while map.may_write(1, DataTag::default()) {
        write(&mut map, lpn % 150);
        lpn += 1;
        assert!(lpn < BLOCKS * PAGES, "the host may write without end");
    }
    assert_eq!(map.free_blocks() + 1, kept, "the last block that may be opened is open, and full");
    assert_eq!(lpn % PAGES, 0);
}

#[test]
fn the_slc_cache_takes_no_block_that_collection_needs() {
    const HIGH: u32 = 20;
    let slc = SlcMode { bits_per_cell: 3, read_ns: 1, program_ns: 5, erase_ns: 10 };
    let times =
        TimingConfig { program_ns: 10.into(), erase_ns: 20, slc: Some(slc), ..TimingConfig::default() };
    let array = ArrayTiming::new(times, &geometry());
    let chip: Chip<ArrayTiming, StampMedium> =
        Chip::new(geometry(), WearConfig::default(), array, 1).with_slc(slc.bits_per_cell);
    let cache = SlcConfig {
        static_blocks: 0,
        dynamic_blocks: BLOCKS,
        fold_at: 0,
        fold_idle_ns: 1_000_000_000,
        when_full: WhenFull::Direct,
    };
    let watermarks = Some(Watermarks { high: HIGH, low: 6, victims: 1, read_pages: 8 });
    let config = PageMapConfig { watermarks, slc: Some(cache), ..PageMapConfig::new(140) };
    let mut map = PageMap::new(chip, Greedy::new(BLOCKS), config).expect("room");
    let mut cached = 0;
    for lpn in (0..140).cycle().take(600) {
        let (before, units) = (map.slc_blocks().expect("a cache"), map.stats().slc.unwrap_or_default());
        let free = map.free_blocks();
        write(&mut map, lpn);
        map.nand_mut().drain();
        while let Some(token) = map.nand_mut().next_reported() {
            map.on_event(token);
            map.nand_mut().drain();
        }
        if map.slc_blocks().expect("a cache") > before {
            // Two open blocks also have space.
            assert!(free + 2 > HIGH, "the cache opened a block when {free} were erased: {units:?}");
            cached += 1;
        }
    }
    assert!(cached > 5, "{cached} blocks were opened in the cache");
}

/// A host program behind the copy could make a lost unit look newly sent.
#[test]
fn a_lost_unit_is_lost_behind_a_program_of_the_host() {
    let mut behind = 0;
    for gc_stream in [GcStream::Own, GcStream::Host] {
        let times = TimingConfig { program_ns: 10.into(), erase_ns: 20, ..TimingConfig::default() };
        let chip: Chip<ArrayTiming, StampMedium> =
            Chip::new(geometry(), WearConfig::default(), ArrayTiming::new(times, &geometry()), 1);
        let config = PageMapConfig { gc_stream, ..PageMapConfig::new(160) };
        let mut map = PageMap::new(chip, Greedy::new(BLOCKS), config).expect("room");
        (0..160).for_each(|lpn| write(&mut map, lpn));
        let is_lost = |lpn: u32| lpn.is_multiple_of(5);
        for lpn in (0..160).filter(|&lpn| is_lost(lpn)) {
            let ppa = map.locate(Lpn::new(lpn)).expect("written");
            map.nand_mut().lose(ppa, Lasts::UntilErased);
        }
        let mut rng = Prng::new(5);
        for _ in 0..3000 {
            let lpn = rng.below(160);
            if !is_lost(lpn) {
                write(&mut map, lpn);
            }
            for lpn in (0..160).filter(|&lpn| is_lost(lpn)) {
                let page = geometry().page_of(map.locate(Lpn::new(lpn)).expect("mapped"));
                if map.nand().is_on_its_way(page) {
                    let class = map.nand().timing().last_class(|| geometry().place(page));
                    behind += u32::from(class == Some(Class::HostProgram));
                    let read = map.read(When::START, Lpn::new(lpn), 1, &mut Vec::new());
                    assert!(matches!(read, Err(FtlError::Unreadable { .. })), "{gc_stream:?}: {read:?}");
                }
            }
            let now = map.nand().timing().now();
            map.nand_mut().run(now + rng.below_u64(40));
        }
    }
    assert!(behind > 100, "{behind} reads of copies behind a program of the host");
}
