//! Page content: PDF operators for each element of a picture.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use roxmltree::Node;

use super::PaperError;
use super::font::Font;
use super::style::{Sheet, Style};

/// Bézier approximation of a quarter circle: distance of the handles, in radii.
const KAPPA: f64 = 0.552_284_75;

pub(super) struct Drawn {
    pub(super) content: String,
    glyphs: BTreeMap<u16, char>,
}

impl Drawn {
    pub(super) fn widths(&self, font: &Font<'_>) -> String {
        self.glyphs.keys().map(|&glyph| format!("{glyph}[{:.0}]", font.width(glyph))).collect()
    }

    /// Character map that makes text searchable and copyable.
    pub(super) fn characters(&self) -> String {
        let mut out = String::from(
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Glyphs def /CMapType 2 def\n\
             1 begincodespacerange <0000> <FFFF> endcodespacerange\n",
        );
        let all: Vec<_> = self.glyphs.iter().collect();
        for part in all.chunks(100) {
            let _ = writeln!(out, "{} beginbfchar", part.len());
            for (glyph, c) in part {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter().map(|unit| format!("{unit:04X}"));
                let _ = writeln!(out, "<{glyph:04X}> <{}>", units.collect::<String>());
            }
            let _ = writeln!(out, "endbfchar");
        }
        out + "endcmap end end\n"
    }
}

pub(super) fn extent(root: Node<'_, '_>) -> Result<(f64, f64), PaperError> {
    let parts: Vec<f64> = root
        .attribute("viewBox")
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|part| part.parse().ok())
        .collect();
    match parts[..] {
        [_, _, width, height] if width >= 1.0 && height >= 1.0 && width.max(height) < 1e5 => {
            Ok((width, height))
        }
        _ => Err(PaperError::Foreign("no viewBox of a usual size".to_owned())),
    }
}

/// Draws a picture with `scale` points per unit.
pub(super) fn draw(
    root: Node<'_, '_>,
    font: &Font<'_>,
    scale: f64,
    height: f64,
) -> Result<Drawn, PaperError> {
    let sheets = root.descendants().filter(|node| node.tag_name().name() == "style");
    let sheet = Sheet::of(&sheets.filter_map(|node| node.text()).collect::<String>());
    let mut drawing =
        Drawing { sheet, font, drawn: Drawn { content: String::new(), glyphs: BTreeMap::new() } };
    // y grows downwards in SVG, upwards in PDF.
    let _ = writeln!(drawing.drawn.content, "{0:.5} 0 0 {1:.5} 0 {2:.3} cm", scale, -scale, height * scale);
    let (width, _) = extent(root)?;
    drawing.children(root, (0.0, 0.0), (width, height), 0)?;
    Ok(drawing.drawn)
}

struct Drawing<'a> {
    sheet: Sheet,
    font: &'a Font<'a>,
    drawn: Drawn,
}

const DEPTH_MAX: u32 = 16;

impl Drawing<'_> {
    fn children(
        &mut self,
        node: Node<'_, '_>,
        at: (f64, f64),
        extent: (f64, f64),
        depth: u32,
    ) -> Result<(), PaperError> {
        // A deeply nested file would overflow the stack.
        if depth > DEPTH_MAX {
            return Err(PaperError::Foreign("groups within groups without end".to_owned()));
        }
        for child in node.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "style" | "title" => {}
                "g" => {
                    let (x, y) = translation(child)?;
                    self.children(child, (at.0 + x, at.1 + y), extent, depth + 1)?;
                }
                "rect" => self.rectangle(child, at, extent)?,
                "circle" => self.circle(child, at)?,
                "path" => {
                    let path = path(child.attribute("d").unwrap_or_default(), at)?;
                    self.paint(child, &path)?;
                }
                "text" => self.text(child, at)?,
                other => return Err(PaperError::Foreign(format!("an element {other}"))),
            }
        }
        Ok(())
    }

    fn rectangle(
        &mut self,
        node: Node<'_, '_>,
        at: (f64, f64),
        extent: (f64, f64),
    ) -> Result<(), PaperError> {
        let of = |name: &str, whole: f64| match node.attribute(name) {
            Some("100%") => Ok(whole),
            _ => number(node, name),
        };
        let (x, y) = (number(node, "x")? + at.0, number(node, "y")? + at.1);
        let (width, height) = (of("width", extent.0)?, of("height", extent.1)?);
        self.paint(node, &format!("{} {} {} {} re", short(x), short(y), short(width), short(height)))
    }

    fn circle(&mut self, node: Node<'_, '_>, at: (f64, f64)) -> Result<(), PaperError> {
        let (x, y, r) = (number(node, "cx")? + at.0, number(node, "cy")? + at.1, number(node, "r")?);
        let mut path = format!("{} {} m", short(x + r), short(y));
        let k = r * KAPPA;
        for [a, b, c, d, e, f] in [
            [x + r, y + k, x + k, y + r, x, y + r],
            [x - k, y + r, x - r, y + k, x - r, y],
            [x - r, y - k, x - k, y - r, x, y - r],
            [x + k, y - r, x + r, y - k, x + r, y],
        ] {
            let _ = write!(path, " {} c", [a, b, c, d, e, f].map(short).join(" "));
        }
        self.paint(node, &path)
    }

    fn paint(&mut self, node: Node<'_, '_>, path: &str) -> Result<(), PaperError> {
        let style = self.sheet.style(node)?;
        let Style { fill, stroke, width, dashes, .. } = &style;
        let how = match (fill, stroke) {
            (None, None) => return Ok(()),
            (Some(_), None) => "f",
            (None, Some(_)) => "S",
            (Some(_), Some(_)) => "B",
        };
        let out = &mut self.drawn.content;
        if let Some(fill) = fill {
            let _ = write!(out, "{} rg ", shares(fill));
        }
        if let Some(stroke) = stroke {
            let dashes: Vec<String> = dashes.iter().map(|&dash| short(dash)).collect();
            let _ = write!(out, "{} RG {} w [{}] 0 d ", shares(stroke), short(*width), dashes.join(" "));
        }
        let _ = writeln!(out, "{path} {how}");
        Ok(())
    }

    fn text(&mut self, node: Node<'_, '_>, at: (f64, f64)) -> Result<(), PaperError> {
        let style = self.sheet.style(node)?;
        let Some(fill) = style.fill else { return Ok(()) };
        let text = node.text().unwrap_or_default();
        let size = style.font_size;
        let glyphs: Vec<(u16, char)> = text.chars().map(|c| (self.font.glyph(c), c)).collect();
        let width: f64 = glyphs.iter().map(|&(glyph, _)| self.font.width(glyph)).sum::<f64>() * size / 1000.0;
        let left = match node.attribute("text-anchor") {
            Some("end") => -width,
            Some("middle") => -width / 2.0,
            _ => 0.0,
        };
        let (x, y) = (number(node, "x")? + at.0, number(node, "y")? + at.1);
        let angle = rotation(node)?.to_radians();
        let (sin, cos) = (libm::sin(angle), libm::cos(angle));
        // Move along the direction of the text, from its anchor to its start. The page is flipped, so the
        // matrix flips the letters back upright.
        let (x, y) = (x + left * cos, y + left * sin);
        let hex: String = glyphs.iter().map(|(glyph, _)| format!("{glyph:04X}")).collect();
        let bold = if style.is_bold {
            format!("2 Tr {} RG {} w [] 0 d", shares(&fill), short(size * 0.03))
        } else {
            "0 Tr".to_owned()
        };
        let matrix = [cos, sin, sin, -cos].map(|part| format!("{part:.4}")).join(" ");
        let _ = writeln!(
            self.drawn.content,
            "BT {} rg {bold} /F {} Tf {matrix} {} {} Tm <{hex}> Tj ET",
            shares(&fill),
            short(size),
            short(x),
            short(y)
        );
        self.drawn.glyphs.extend(glyphs);
        Ok(())
    }
}

fn shares(colour: &[f64; 3]) -> String {
    colour.map(|part| format!("{part:.3}")).join(" ")
}

fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Numeric attribute; 0 if absent.
fn number(node: Node<'_, '_>, name: &str) -> Result<f64, PaperError> {
    let Some(text) = node.attribute(name) else { return Ok(0.0) };
    let number = text.parse().ok().filter(|number: &f64| number.abs() < 1e6);
    number.ok_or_else(|| PaperError::Foreign(format!("{name}=\"{text}\"")))
}

fn transform(node: Node<'_, '_>, name: &str) -> Result<Vec<f64>, PaperError> {
    let Some(text) = node.attribute("transform") else { return Ok(Vec::new()) };
    let wrong = || PaperError::Foreign(format!("transform=\"{text}\""));
    let inner = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
    let parts = inner.ok_or_else(wrong)?.split([',', ' ']).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok().filter(|part: &f64| part.is_finite()).ok_or_else(wrong)).collect()
}

fn translation(node: Node<'_, '_>) -> Result<(f64, f64), PaperError> {
    Ok(match transform(node, "translate")?[..] {
        [x, y] => (x, y),
        [x] => (x, 0.0),
        _ => (0.0, 0.0),
    })
}

/// Rotation in degrees around the element's position.
fn rotation(node: Node<'_, '_>) -> Result<f64, PaperError> {
    Ok(transform(node, "rotate")?.first().copied().unwrap_or(0.0))
}

/// Converts an SVG path, moved by `at`.
fn path(text: &str, at: (f64, f64)) -> Result<String, PaperError> {
    let wrong = |what: &str| PaperError::Foreign(format!("{what} in a path"));
    let (mut x, mut y) = at;
    let mut out = String::new();
    for (from, command) in text.char_indices().filter(|(_, c)| c.is_alphabetic()) {
        let rest = &text[from + command.len_utf8()..];
        let end = rest.find(char::is_alphabetic).unwrap_or(rest.len());
        let numbers = rest[..end].split([',', ' ']).filter(|part| !part.trim().is_empty());
        let numbers: Option<Vec<f64>> =
            numbers.map(|part| part.trim().parse().ok().filter(|part: &f64| part.abs() < 1e6)).collect();
        let numbers = numbers.ok_or_else(|| wrong("no number"))?;
        // PDF has absolute coordinates only; lower-case commands are relative.
        (x, y) = match (command, &numbers[..]) {
            ('M' | 'L', &[to, down]) => (to + at.0, down + at.1),
            ('m' | 'l', &[by, down]) => (x + by, y + down),
            ('H', &[to]) => (to + at.0, y),
            ('h', &[by]) => (x + by, y),
            ('V', &[to]) => (x, to + at.1),
            ('v', &[by]) => (x, y + by),
            ('Z' | 'z', []) => (x, y),
            _ => return Err(wrong(&format!("{command} with {} numbers", numbers.len()))),
        };
        let _ = match command {
            'M' | 'm' => write!(out, "{} {} m ", short(x), short(y)),
            'Z' | 'z' => write!(out, "h "),
            _ => write!(out, "{} {} l ", short(x), short(y)),
        };
    }
    Ok(out.trim_end().to_owned())
}
