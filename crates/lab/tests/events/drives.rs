pub(crate) const DRIVES: &[(&str, &str)] = &[
    (
        "one die",
        "[drive.nand]
        blocks_per_plane = 32
        pages_per_block = 8
        [drive.ftl]
        logical_pages = 160
        [workload]
        kind = 'uniform'
        queue_depth = 4
        write_fraction = 0.7
        [run]
        warmup = '2x'
        measure = '4x'",
    ),
    (
        "planes, buffer, background collection, suspension",
        "[drive.nand]
        channels = 2
        dies_per_channel = 2
        planes_per_die = 2
        blocks_per_plane = 16
        pages_per_block = 16
        page_bytes = 8192
        channel_mb_s = 400
        [drive.nand.suspend]
        most = 4
        [drive.ftl]
        mapping_unit_bytes = 4096
        over_provisioning = 0.6
        [drive.ftl.gc]
        mode = 'background'
        [drive.controller]
        command_ns = 5000
        link_mb_s = 3000
        write_buffer_bytes = '64k'
        [workload]
        kind = 'zipf'
        theta = 0.9
        block_bytes = '12k'
        write_fraction = 0.6
        trim_fraction = 0.05
        queue_depth = 8
        [run]
        warmup = '1x'
        measure = '2x'",
    ),
    (
        "pages loaded ahead",
        "seed = 7
        [drive.nand]
        dies_per_channel = 2
        planes_per_die = 2
        blocks_per_plane = 24
        pages_per_block = 16
        cache_program = true
        cache_read = true
        independent_plane_reads = true
        [drive.ftl]
        over_provisioning = 0.6
        [workload]
        kind = 'uniform'
        block_bytes = '16k'
        write_fraction = 0.5
        queue_depth = 16
        [run]
        warmup = '1x'
        measure = '2x'",
    ),
    (
        "background collection on dies with buses of their own, a journaled map",
        "[drive.nand]
        channels = 2
        blocks_per_plane = 40
        pages_per_block = 32
        [drive.ftl]
        over_provisioning = 0.5
        durable_map = true
        [drive.ftl.gc]
        mode = 'background'
        [[jobs]]
        name = 'writes'
        kind = 'uniform'
        queue_depth = 16
        [[jobs]]
        name = 'reads'
        kind = 'uniform'
        write_fraction = 0.0
        queue_depth = 2
        [run]
        warmup = '1x'
        measure = '1x'",
    ),
    (
        "demand paging",
        "[drive.nand]
        channels = 2
        blocks_per_plane = 64
        pages_per_block = 32
        page_bytes = 2048
        [drive.ftl]
        mapping = 'dftl'
        mapping_unit_bytes = 2048
        over_provisioning = 0.6
        [workload]
        kind = 'uniform'
        block_bytes = '2k'
        write_fraction = 0.8
        [run]
        warmup = '1x'
        measure = '1x'",
    ),
    (
        "log blocks",
        "[drive.nand]
        blocks_per_plane = 64
        pages_per_block = 16
        [drive.ftl]
        mapping = 'fast'
        log_blocks = 8
        over_provisioning = 0.5
        [workload]
        kind = 'uniform'
        write_fraction = 0.8
        [run]
        warmup = '1x'
        measure = '1x'",
    ),
];
