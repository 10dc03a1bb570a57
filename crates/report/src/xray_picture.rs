//! X-ray frames as pictures: the drive at the start, halfway and at the end.

use std::fmt::Write as _;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use serde_json::Value;

use crate::paper::standalone;
use crate::text::{Unit, count, escaped, number};
use crate::xray::{self, RAMP, STREAMS};
use crate::{Picture, Run};

const WIDTH: f64 = 220.0;
const HEIGHT: f64 = 300.0;
const GAP: f64 = 16.0;
/// Gap between the cells of two planes.
const RIM: f64 = 3.0;
const SHADES: usize = 16;
const SIDES: [f64; 17] =
    [100.0, 70.0, 50.0, 35.0, 25.0, 14.0, 11.0, 9.0, 7.0, 5.5, 4.0, 3.0, 2.0, 1.5, 1.0, 0.5, 0.25];

const ERASED: u8 = 0;
const FULL: u8 = 2;
const BAD: u8 = 5;
/// Colour of erased cells, distinct from the paper.
const ERASED_COLOUR: &str = "#e3e5e9";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Valid,
    Stream,
    Wear,
}

impl By {
    const ALL: [Self; 3] = [Self::Valid, Self::Stream, Self::Wear];

    fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Stream => "stream",
            Self::Wear => "wear",
        }
    }
}

struct Frames {
    planes: usize,
    cells_per_plane: usize,
    at_ns: Vec<u64>,
    host_pages: Vec<u64>,
    wear: (u64, u64),
    stage: Vec<u8>,
    coloured: [Vec<u8>; 3],
    /// Valid shares at the first and last colour, out of 255.
    shares: (u8, u8),
}

/// Pictures, numbered if there are several runs.
pub(crate) fn pictures(runs: &[Run]) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let Some(frames) = xray::of(run).and_then(|xray| Frames::read(&xray)) else { continue };
        let number = if runs.len() > 1 { format!("-{}", at + 1) } else { String::new() };
        pictures.extend(By::ALL.map(|by| Picture {
            name: format!("xray-{}{number}", by.name()),
            svg: standalone(&frames.svg(&run.name, by)),
        }));
    }
    pictures
}

/// Unpacks frames, each stored as the difference from the previous one.
fn unpacked(text: &Value, frames: usize, cells: usize) -> Option<Vec<u8>> {
    let zlib = STANDARD.decode(text.as_str()?).ok()?;
    let length = frames.checked_mul(cells)?;
    let mut bytes = Vec::new();
    ZlibDecoder::new(&zlib[..]).take(length as u64 + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() != length {
        return None;
    }
    for at in cells..length {
        bytes[at] = bytes[at].wrapping_add(bytes[at - cells]);
    }
    Some(bytes)
}

impl Frames {
    fn read(xray: &Value) -> Option<Self> {
        let of = |key: &str| xray.get(key).and_then(Value::as_u64);
        let column = |key: &str| -> Option<Vec<u64>> {
            xray.get(key)?.as_array()?.iter().map(|value| value.as_f64().map(|value| value as u64)).collect()
        };
        let (at_ns, host_pages) = (column("at_ns")?, column("host_pages")?);
        if at_ns.is_empty() || at_ns.len() != host_pages.len() {
            return None;
        }
        let planes = (of("dies")? * of("planes_per_die")?) as usize;
        let cells_per_plane = of("cells_per_plane")? as usize;
        let unpack = |key: &str| unpacked(xray.get(key)?, at_ns.len(), planes * cells_per_plane);
        let (stage, valid) = (unpack("stage")?, unpack("valid")?);
        Some(Self {
            planes,
            shares: spread(&stage, &valid),
            cells_per_plane,
            wear: (of("wear_min")?, of("wear_step")?),
            stage,
            coloured: [valid, unpack("stream")?, unpack("wear")?],
            at_ns,
            host_pages,
        })
    }

    fn svg(&self, run: &str, by: By) -> String {
        let last = self.at_ns.len() - 1;
        let mut shown = vec![0, last / 2, last];
        shown.dedup();
        let (side, columns) = self.layout();
        let plane = self.cells_per_plane.div_ceil(columns) as f64 * side + RIM;
        let (top, bottom) = (24.0, 24.0 + self.planes as f64 * plane);
        let width = shown.len() as f64 * (WIDTH + GAP) - GAP + 8.0;
        let mut svg = format!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {:.0}\" role=\"img\" \
             aria-label=\"The blocks of {}, by {}\">",
            bottom + 30.0,
            escaped(run),
            by.name()
        );
        for (place, &frame) in shown.iter().enumerate() {
            let left = 4.0 + place as f64 * (WIDTH + GAP);
            let _ = write!(svg, "<text x=\"{left:.1}\" y=\"15\">{}</text>", escaped(&self.when(frame)));
            self.draw(&mut svg, by, frame, (left, top), (side, columns, plane));
        }
        self.legend(&mut svg, by, bottom + 18.0);
        svg + "</svg>"
    }

    /// Time of a frame, or host pages without timing.
    fn when(&self, frame: usize) -> String {
        let first = self.at_ns[0];
        if self.at_ns.last() > Some(&first) {
            number(self.at_ns[frame].saturating_sub(first) as f64, Unit::Ns)
        } else {
            format!("{} pages", count(self.host_pages[frame]))
        }
    }

    /// The largest cell size that fits all planes, and cells per row.
    fn layout(&self) -> (f64, usize) {
        let fits = |side: &f64| {
            let rows = self.cells_per_plane.div_ceil((WIDTH / side) as usize) as f64;
            self.planes as f64 * (rows * side + RIM) <= HEIGHT
        };
        let side = SIDES.into_iter().find(fits).unwrap_or(SIDES[SIDES.len() - 1]);
        // Keep the number of rows, and make the rows equally long if possible.
        let rows = self.cells_per_plane.div_ceil((WIDTH / side) as usize).max(1);
        (side, self.cells_per_plane.div_ceil(rows).max(1))
    }

    /// Shade of a cell; `None` for a bad cell and, except by wear, for an erased one.
    fn shade(&self, by: By, at: usize) -> Option<usize> {
        let stage = self.stage[at];
        let share =
            |value: u8, most: u8| usize::from(value.min(most)) * (SHADES - 1) / usize::from(most.max(1));
        match by {
            _ if stage == BAD => None,
            By::Wear => Some(share(self.coloured[2][at], self.most_worn())),
            _ if stage == ERASED => None,
            By::Valid => {
                let (low, high) = self.shares;
                Some(share(self.coloured[0][at].saturating_sub(low), high - low))
            }
            By::Stream => Some(usize::from(self.coloured[1][at]).min(STREAMS.len() - 1)),
        }
    }

    fn most_worn(&self) -> u8 {
        self.coloured[2].iter().copied().max().unwrap_or(0)
    }

    fn draw(
        &self,
        svg: &mut String,
        by: By,
        frame: usize,
        (left, top): (f64, f64),
        (side, columns, plane): (f64, usize, f64),
    ) {
        // One path per shade; the last path is for erased cells.
        let count = if by == By::Stream { STREAMS.len() } else { SHADES };
        let mut paths = vec![String::new(); count + 1];
        let cells = self.planes * self.cells_per_plane;
        for at_plane in 0..self.planes {
            let mut cell = 0;
            while cell < self.cells_per_plane {
                let of = |cell: usize| {
                    let at = frame * cells + at_plane * self.cells_per_plane + cell;
                    self.shade(by, at).or_else(|| (self.stage[at] == ERASED).then_some(count))
                };
                let shade = of(cell);
                // One stroke covers equal cells of a row.
                let row_end = ((cell / columns + 1) * columns).min(self.cells_per_plane);
                let end = (cell + 1..row_end).find(|&next| of(next) != shade).unwrap_or(row_end);
                if let Some(shade) = shade {
                    let x = left + (cell % columns) as f64 * side;
                    let y = top + at_plane as f64 * plane + ((cell / columns) as f64 + 0.5) * side;
                    let _ = write!(paths[shade], "M{x:.2},{y:.2}h{:.2}", (end - cell) as f64 * side);
                }
                cell = end;
            }
        }
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let colour = if shade == count { ERASED_COLOUR.to_owned() } else { colour(by, shade) };
            let _ = write!(svg, "<path stroke=\"{colour}\" stroke-width=\"{side}\" d=\"{path}\"/>");
        }
    }

    fn legend(&self, svg: &mut String, by: By, y: f64) {
        let mut x = 4.0;
        let text = |svg: &mut String, x: &mut f64, text: &str| {
            let _ = write!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", *x, escaped(text));
            *x += text.chars().count() as f64 * 6.6 + 8.0;
        };
        let mark = |svg: &mut String, x: &mut f64, colour: &str, wide: f64| {
            let _ = write!(
                svg,
                "<path stroke=\"{colour}\" stroke-width=\"10\" d=\"M{:.1},{:.1}h{wide}\"/>",
                *x,
                y - 4.0
            );
            *x += wide;
        };
        // By wear, erased blocks are coloured like the others.
        if by != By::Wear && self.stage.contains(&ERASED) {
            mark(svg, &mut x, ERASED_COLOUR, 10.0);
            x += 5.0;
            text(svg, &mut x, "erased");
        }
        if by == By::Stream {
            for (at, (name, colour)) in STREAMS.iter().enumerate() {
                if (0..self.stage.len()).any(|cell| self.shade(by, cell) == Some(at)) {
                    mark(svg, &mut x, colour, 10.0);
                    x += 5.0;
                    text(svg, &mut x, name);
                }
            }
            return;
        }
        let (low, high) = match by {
            By::Wear => {
                let (least, step) = self.wear;
                let most = least + step * u64::from(self.most_worn());
                (format!("{least} erases"), format!("{most} erases"))
            }
            _ => (valid(self.shares.0), valid(self.shares.1)),
        };
        text(svg, &mut x, &low);
        for shade in 0..SHADES {
            mark(svg, &mut x, &colour(by, shade), 6.0);
        }
        x += 8.0;
        text(svg, &mut x, &high);
    }
}

/// 1st and 99th percentile of the valid shares of full blocks, at least a twentieth of a block apart.
fn spread(stage: &[u8], valid: &[u8]) -> (u8, u8) {
    // The page's script (xray.js) computes the same ends.
    let mut shares: Vec<u8> =
        stage.iter().zip(valid).filter(|(stage, _)| **stage == FULL).map(|(_, &share)| share).collect();
    let Some(last) = shares.len().checked_sub(1) else { return (0, u8::MAX) };
    shares.sort_unstable();
    let (low, high) = (shares[last / 100], shares[last - last / 100]);
    if high - low < 13 { (high.saturating_sub(13), high.max(13)) } else { (low, high) }
}

fn valid(share: u8) -> String {
    match share {
        0 => "nothing valid".to_owned(),
        u8::MAX => "all valid".to_owned(),
        share => format!("{:.0} % valid", f64::from(share) / 2.55),
    }
}

fn colour(by: By, shade: usize) -> String {
    if by == By::Stream {
        return STREAMS[shade].1.to_owned();
    }
    let at = shade as f64 / (SHADES - 1) as f64 * (RAMP.len() - 1) as f64;
    let low = (at as usize).min(RAMP.len() - 2);
    let part = at - low as f64;
    let of = |text: &str, from: usize| f64::from(u8::from_str_radix(&text[from..from + 2], 16).unwrap_or(0));
    let mixed = [1, 3, 5]
        .map(|from| (of(RAMP[low], from) * (1.0 - part) + of(RAMP[low + 1], from) * part).round() as u8);
    format!("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2])
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn packed(frames: &[&[u8]]) -> Value {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        let mut before = vec![0u8; frames[0].len()];
        for frame in frames {
            let difference: Vec<u8> =
                frame.iter().zip(&before).map(|(now, before)| now.wrapping_sub(*before)).collect();
            zlib.write_all(&difference).expect("memory");
            before = frame.to_vec();
        }
        STANDARD.encode(zlib.finish().expect("memory")).into()
    }

    fn xray() -> Value {
        let same: [&[u8]; 2] = [&[2, 2, 0, 5, 2, 2], &[2, 2, 2, 5, 2, 0]];
        serde_json::json!({
            "dies": 2, "planes_per_die": 1, "cells_per_plane": 3, "wear_min": 7, "wear_step": 2,
            "at_ns": [5, 1_000_005], "host_pages": [0, 10],
            "stage": packed(&same),
            "valid": packed(&[&[255, 255, 0, 0, 0, 128], &[0, 255, 255, 0, 0, 0]]),
            "stream": packed(&[&[1, 1, 0, 0, 2, 2], &[1, 1, 1, 0, 2, 0]]),
            "wear": packed(&[&[0, 0, 0, 0, 0, 3], &[0, 0, 0, 0, 0, 3]]),
        })
    }

    #[test]
    fn cells_are_where_they_belong_and_equal_neighbours_are_one_stroke() {
        let frames = Frames::read(&xray()).expect("sound");
        let (side, columns) = frames.layout();
        assert_eq!((side, columns), (70.0, 3));
        let shades =
            |by: By, frame: usize| (0..6).map(|cell| frames.shade(by, frame * 6 + cell)).collect::<Vec<_>>();
        assert_eq!(shades(By::Valid, 0), [Some(15), Some(15), None, None, Some(0), Some(7)]);
        assert_eq!(shades(By::Valid, 1), [Some(0), Some(15), Some(15), None, Some(0), None]);
        assert_eq!(shades(By::Stream, 1), [Some(1), Some(1), Some(1), None, Some(2), None]);
        assert_eq!(shades(By::Wear, 0), [Some(0), Some(0), Some(0), None, Some(0), Some(15)]);
        let svg = frames.svg("x", By::Valid);
        // Two fully valid cells, side by side, in the first plane of the first frame.
        assert!(svg.contains("d=\"M4.00,59.00h140.00\""), "{svg}");
        assert!(svg.contains(">0 ns<") && svg.contains(">1 ms<"), "{svg}");
        assert!(frames.svg("x", By::Wear).contains(">13 erases<"));
        // Erased cells are visible and in the legend, unless all cells have a colour.
        assert!(svg.contains("stroke=\"#e3e5e9\" stroke-width=\"70\"") && svg.contains(">erased<"), "{svg}");
        assert!(!frames.svg("x", By::Wear).contains(">erased<"));
        let streams = frames.svg("x", By::Stream);
        assert!(streams.contains(">moved<") && !streams.contains(">unknown<"), "{streams}");
    }

    #[test]
    fn colours_are_of_the_shares_that_occur() {
        assert_eq!(spread(&[0, 1, 5], &[3, 4, 5]), (0, 255), "no full block");
        assert_eq!(spread(&[2, 2, 2, 0], &[150, 255, 200, 7]), (150, 255));
        assert_eq!((spread(&[2], &[255]), spread(&[2], &[0])), ((242, 255), (0, 13)));
        // One block of two hundred is an outlier.
        let mut valid = vec![200; 199];
        valid.push(3);
        assert_eq!(spread(&[2; 200], &valid), (187, 200));
        assert_eq!([0, 128, 255].map(super::valid), ["nothing valid", "50 % valid", "all valid"]);
    }

    #[test]
    fn what_is_no_xray_is_left_out() {
        for (key, value) in [
            ("stage", Value::from("AAAA")),
            ("valid", Value::from(3)),
            ("wear", packed(&[&[1, 2, 3]])),
            ("dies", Value::from(3)),
            ("at_ns", serde_json::json!([1])),
        ] {
            let mut xray = xray();
            xray[key] = value;
            assert!(Frames::read(&xray).is_none(), "{key}");
        }
    }
}
