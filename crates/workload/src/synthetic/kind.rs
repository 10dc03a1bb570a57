use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::named;

named! {
    /// Distribution of addresses.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Kind {
        /// All slots equally likely (fio `rw=randwrite`).
        #[default]
        Uniform => "uniform",
        /// Slots in order, wrapping at the end (fio `rw=write`).
        Sequential => "sequential",
        /// Zipf's law: the k-th most popular slot with probability proportional to 1/k^theta (fio
        /// `random_distribution=zipf:theta`, but exact).
        Zipf => "zipf",
        /// Two uniform classes: the share `hot_fraction` of the slots receives the share
        /// `hot_write_share` of the requests (fio `random_distribution=zoned:80/20:20/80`).
        Hotcold => "hotcold",
        /// Normal distribution around the middle of the range (fio `random_distribution=normal`).
        Gaussian => "gaussian",
    }
}
