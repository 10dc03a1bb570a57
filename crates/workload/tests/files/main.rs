//! File workloads on their file systems, judged by others: `fsck.fat`, a naive model, `fatfs` on the bare
//! image. Needs Debian's package dosfstools, or `STROBE_SKIP_TOOLS=1`.

mod power_cut;
mod random;
mod space;
mod support;
mod workloads;
