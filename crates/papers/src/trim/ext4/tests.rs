use super::*;

// Needs no kernel. An invalid drive would fail an experiment at its first run.
#[test]
fn every_drive_can_serve_its_logical_space() {
    for scale in [Scale::Full, Scale::Quick] {
        let mut drives = Vec::new();
        for case in Case::all(TRIED_NS[0]) {
            let drive = experiment(case, &Options::new(scale, 1)).expect("a preset").drive;
            if !drives.contains(&drive) {
                strobe_ssd::build(&drive, true, 1)
                    .unwrap_or_else(|error| panic!("{scale:?}, {}: {error}", case.blocks_permille));
                drives.push(drive);
            }
        }
        assert!(drives.len() >= BLOCKS_PERMILLE.len());
    }
}
