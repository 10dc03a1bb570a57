use strobe_nand::Nand;
use strobe_types::BlockId;

/// Wear of the flash.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WearSummary {
    /// Fewest erases of a good block.
    pub erase_min: u32,
    /// Mean erases over the good blocks.
    pub erase_mean: f64,
    /// Most erases of a good block.
    pub erase_max: u32,
    /// Standard deviation of erases over the good blocks.
    pub erase_stddev: f64,
    /// Blocks out of service, factory-bad ones included.
    pub bad_blocks: u32,
    /// Host units written before the first block went bad in use.
    pub first_bad_block_host_writes: Option<u64>,
    /// Host units written before each block went bad in use, in order.
    pub bad_block_host_writes: Vec<u64>,
    /// Good blocks by erase count, in equal bins from `erase_min` to `erase_max`.
    pub histogram: Vec<u32>,
}

impl WearSummary {
    const BINS: u32 = 16;

    pub(crate) fn of_flash<N: Nand>(nand: &N, bad_block_host_writes: &[u64]) -> Self {
        let blocks = (0..nand.geometry().blocks()).map(BlockId::new);
        let good: Vec<u32> = blocks
            .filter(|&block| !nand.block(block).bad)
            .map(|block| nand.block(block).erase_count)
            .collect();
        Self {
            bad_blocks: nand.geometry().blocks() - good.len() as u32,
            first_bad_block_host_writes: bad_block_host_writes.first().copied(),
            bad_block_host_writes: bad_block_host_writes.to_vec(),
            ..Self::of(&good)
        }
    }

    /// Statistics over the erase counts of the good blocks.
    pub fn of(erase_counts: &[u32]) -> Self {
        let (Some(&min), Some(&max)) = (erase_counts.iter().min(), erase_counts.iter().max()) else {
            return Self::default();
        };
        let n = erase_counts.len() as f64;
        let mean = erase_counts.iter().map(|&e| u64::from(e)).sum::<u64>() as f64 / n;
        let variance =
            erase_counts.iter().map(|&e| (f64::from(e) - mean) * (f64::from(e) - mean)).sum::<f64>() / n;
        let width = (max - min + 1).div_ceil(Self::BINS);
        let mut histogram = vec![0; ((max - min) / width + 1) as usize];
        for &count in erase_counts {
            histogram[((count - min) / width) as usize] += 1;
        }
        Self {
            erase_min: min,
            erase_mean: mean,
            erase_max: max,
            erase_stddev: variance.sqrt(),
            histogram,
            ..Self::default()
        }
    }
}
