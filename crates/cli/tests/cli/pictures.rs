//! SVG files as other programs draw them: LaTeX, pandoc and office programs use librsvg or similar, users a
//! browser.
//!
//! 1. `rsvg-convert` and Chromium draw the same file at the same size.
//! 2. Both images are averaged over squares of [`SQUARE`] pixels: fonts and edges differ, areas do not.
//! 3. Squares must differ little, and the colours of the figure must be present.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Folder;

const SQUARE: usize = 20;
/// Of 255; fonts explain less.
const MEAN_MAX: f64 = 4.0;
/// Squares that may differ by more than [`FAR`].
const FAR_SHARE: f64 = 0.03;
const FAR: f64 = 40.0;

/// Three bytes per pixel.
struct Picture {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// 8 bits per channel and no interlacing, as both programs write it.
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
        let (width, height) = (number(16), number(20));
        let channels = match (bytes[24], bytes[25], bytes[28]) {
            (8, 2, 0) => 3,
            (8, 6, 0) => 4,
            other => panic!("{}: depth, colour type, interlacing {other:?}", path.display()),
        };
        let (mut at, mut packed) = (8, Vec::new());
        while at < bytes.len() {
            if &bytes[at + 4..at + 8] == b"IDAT" {
                packed.extend_from_slice(&bytes[at + 8..at + 8 + number(at)]);
            }
            at += 12 + number(at);
        }
        let mut raw = Vec::new();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut raw).expect("deflated");
        let row = width * channels;
        let mut lines = vec![0u8; row * height];
        for y in 0..height {
            let filter = raw[y * (row + 1)];
            for x in 0..row {
                let left = if x < channels { 0 } else { lines[y * row + x - channels] };
                let above = if y == 0 { 0 } else { lines[(y - 1) * row + x] };
                let corner = if y == 0 || x < channels { 0 } else { lines[(y - 1) * row + x - channels] };
                let guess = match filter {
                    0 => 0,
                    1 => left,
                    2 => above,
                    3 => u16::midpoint(left.into(), above.into()) as u8,
                    4 => paeth(left, above, corner),
                    other => panic!("filter {other}"),
                };
                lines[y * row + x] = raw[y * (row + 1) + 1 + x].wrapping_add(guess);
            }
        }
        let pixel = |of: &[u8]| [of[0], of[1], of[2]];
        Self { width, pixels: lines.chunks_exact(channels).map(pixel).collect() }
    }

    fn squares(&self) -> Vec<[f64; 3]> {
        let height = self.pixels.len() / self.width;
        let square = |top: usize, left: usize| {
            let mut sum = [0.0; 3];
            for y in top..top + SQUARE {
                for pixel in &self.pixels[y * self.width + left..][..SQUARE] {
                    (0..3).for_each(|channel| sum[channel] += f64::from(pixel[channel]));
                }
            }
            sum.map(|sum| sum / (SQUARE * SQUARE) as f64)
        };
        let tops = (0..height / SQUARE).map(|at| at * SQUARE);
        tops.flat_map(|top| (0..self.width / SQUARE).map(move |at| square(top, at * SQUARE))).collect()
    }

    fn count(&self, colour: [u8; 3]) -> usize {
        self.pixels.iter().filter(|pixel| **pixel == colour).count()
    }
}

fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let [a, b, c] = [left, above, corner].map(i16::from);
    let far = |of: i16| (a + b - c - of).abs();
    if far(a) <= far(b) && far(a) <= far(c) {
        left
    } else if far(b) <= far(c) {
        above
    } else {
        corner
    }
}

fn size(svg: &str) -> (usize, usize) {
    let text = svg.split("viewBox=\"0 0 ").nth(1).and_then(|rest| rest.split('"').next()).expect("a viewBox");
    let mut numbers = text.split(' ').map(|number| number.parse().expect("a number"));
    (numbers.next().expect("a width"), numbers.next().expect("a height"))
}

fn draw(command: &mut Command, png: PathBuf) -> Picture {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Picture::read(&png)
}

/// Without Chromium the comparison is skipped with a message: it is too large to require.
fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        println!("NOT RUN: figures in a browser: no Chromium (apt-get install chromium)");
    }
    found
}

#[test]
fn figures_look_alike_in_librsvg_and_in_a_browser() {
    let Some(rsvg) = strobe_testing::program("rsvg-convert", "librsvg2-bin") else { return };
    let folder = Folder::new();
    let run = |victim: &str, out: &str| {
        let victim = format!("drive.ftl.gc.victim={victim}");
        folder
            .strobe(&["run", "tiny.toml", "-q", "--set", &victim, "--set", "run.xray=9", "--json", out])
            .ok();
    };
    run("greedy", "one.json");
    run("fifo", "two.json");
    folder.strobe(&["report", "one.json", "two.json", "--svg", "."]).ok();
    let sweep = "[sweep]\nseeds = 2\n[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]\n\
                 \"drive.ftl.logical_pages\" = [130, 145, 160]\n";
    folder.write("s.toml", format!("{}{sweep}", crate::TINY.replace("seed = 1\n", "")));
    folder.strobe(&["sweep", "s.toml", "-q", "--out", "sweep"]).ok();
    let browser = chromium();
    let (ink, first, second) = ([0x1a, 0x1c, 0x20], [0x14, 0x30, 0x5c], [0x9c, 0x3a, 0x26]);
    // Curves of means, bars, and the X-ray: three separate drawing routines.
    for (name, colours) in
        [("sweep/waf", &[first, second][..]), ("comparison", &[second]), ("xray-valid-1", &[ink])]
    {
        let svg = folder.path().join(format!("{name}.svg"));
        let (width, height) = size(&fs::read_to_string(&svg).expect("a figure"));
        let (width, height) = (2 * width, 2 * height);
        let png = folder.path().join("rsvg.png");
        let drawn =
            draw(Command::new(&rsvg).args(["-w", &width.to_string(), "-o"]).arg(&png).arg(&svg), png.clone());
        let (white, all) = (drawn.count([255; 3]), drawn.pixels.len());
        assert!(white > all / 4, "{name}: {white} of {all} pixels are white");
        assert!(drawn.count([0; 3]) < all / 100, "{name}: what has no colour is black");
        for colour in colours {
            let found = drawn.count(*colour);
            assert!(found > 20, "{name}: {found} pixels of {colour:?}");
        }
        let Some(browser) = &browser else { continue };
        let png = folder.path().join("chromium.png");
        let mut command = Command::new(browser);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        command.arg(format!("--window-size={width},{height}")).arg(format!("--screenshot={}", png.display()));
        command.arg(format!("file://{}", svg.display()));
        let other = draw(&mut command, png);
        assert_eq!((other.width, other.pixels.len()), (drawn.width, drawn.pixels.len()), "{name}");
        let pairs = drawn.squares().into_iter().zip(other.squares());
        let apart = |(one, other): ([f64; 3], [f64; 3])| -> f64 {
            (0..3).map(|channel| (one[channel] - other[channel]).abs()).sum::<f64>() / 3.0
        };
        let apart: Vec<f64> = pairs.map(apart).collect();
        let mean = apart.iter().sum::<f64>() / apart.len() as f64;
        let far = apart.iter().filter(|apart| **apart > FAR).count() as f64 / apart.len() as f64;
        println!("{name}: squares differ by {mean:.2} on average, {:.1} % by more than {FAR}", 100.0 * far);
        assert!(mean < MEAN_MAX && far < FAR_SHARE, "{name}: {mean} on average, {far} far");
    }
}
