//! Pictures as PDF: one page of the picture's size, with an embedded font. Equal pictures give identical
//! bytes on every machine.

mod drawing;
mod font;
mod style;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use drawing::Drawn;
use font::Font;

const POINTS_PER_MM: f64 = 72.0 / 25.4;
/// Scale of a picture without a printed width.
const POINTS_PER_UNIT: f64 = 0.75;

/// Error of a picture that cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaperError {
    /// The text is not XML.
    #[error("not an SVG file: {0}")]
    Xml(#[from] roxmltree::Error),
    /// The picture contains an element that figures of Strobe never have.
    #[error("the picture contains {0}, which figures of Strobe never have")]
    Foreign(String),
    /// The file is no font that a PDF file can contain.
    #[error("not a TrueType font (.ttf): {0}")]
    Font(String),
    /// Printed width outside 20 to 500 mm.
    #[error("a width of {0} mm; allowed are 20 to 500 (a column of most journals has 85)")]
    Width(f64),
}

/// Sets the printed width of `svg`, a standalone figure file: 20 to 500 mm.
pub fn sized(svg: &str, width_mm: f64) -> Result<String, PaperError> {
    if !(20.0..=500.0).contains(&width_mm) {
        return Err(PaperError::Width(width_mm));
    }
    let document = roxmltree::Document::parse(svg)?;
    let (width, height) = drawing::extent(document.root_element())?;
    let of = format!("<svg width=\"{width_mm}mm\" height=\"{:.2}mm\"", height * width_mm / width);
    let bare = without_size(svg);
    Ok(bare.replacen("<svg", &of, 1))
}

fn without_size(svg: &str) -> String {
    let end = svg.find('>').unwrap_or(svg.len());
    let (head, rest) = svg.split_at(end);
    let mut head = head.to_owned();
    for name in [" width=\"", " height=\""] {
        if let Some(from) = head.find(name)
            && let Some(length) = head[from + name.len()..].find('"')
        {
            head.replace_range(from..from + name.len() + length + 1, "");
        }
    }
    head + rest
}

/// Replaces the colours of `svg`, a standalone figure file, by greys of the same lightness.
pub fn grey(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(at) = rest.find('#') {
        let (before, from) = rest.split_at(at);
        out += before;
        let digits = from[1..].bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        let part = |at: usize| match digits {
            6 => u32::from_str_radix(&from[1 + 2 * at..3 + 2 * at], 16).ok(),
            3 => u32::from_str_radix(&from[1 + at..2 + at], 16).ok().map(|digit| 17 * digit),
            _ => None,
        };
        let length = match (part(0), part(1), part(2)) {
            (Some(red), Some(green), Some(blue)) => {
                let lightness = (299 * red + 587 * green + 114 * blue + 500) / 1000;
                out += &format!("#{lightness:02x}{lightness:02x}{lightness:02x}");
                1 + digits
            }
            _ => {
                out.push('#');
                1
            }
        };
        rest = &from[length..];
    }
    out + rest
}

/// Converts `svg`, a standalone figure file, to PDF. `font` is the file of a TrueType font for its text; the
/// default has Latin, Greek and mathematical symbols. The font is embedded.
pub fn pdf(svg: &str, font: Option<&[u8]>) -> Result<Vec<u8>, PaperError> {
    let document = roxmltree::Document::parse(svg)?;
    let root = document.root_element();
    let (width, height) = drawing::extent(root)?;
    let mm = root.attribute("width").and_then(|width| width.strip_suffix("mm")?.parse::<f64>().ok());
    let scale = match mm {
        Some(mm) if (1.0..=1000.0).contains(&mm) => mm * POINTS_PER_MM / width,
        _ => POINTS_PER_UNIT,
    };
    let font = font.map_or_else(|| Ok(Font::embedded()), Font::of)?;
    let drawn = drawing::draw(root, &font, scale, height)?;
    Ok(file(&font, &drawn, (width * scale, height * scale)))
}

fn file(font: &Font<'_>, drawn: &Drawn, (width, height): (f64, f64)) -> Vec<u8> {
    let (low, high) = font.heights();
    let bounds = font.bounds();
    let objects = [
        plain("<</Type/Catalog/Pages 2 0 R>>"),
        plain("<</Type/Pages/Kids[3 0 R]/Count 1>>"),
        plain(&format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 {width:.2} {height:.2}]/Contents 4 0 R\
             /Resources<</Font<</F 5 0 R>>>>>>"
        )),
        stream("", drawn.content.as_bytes()),
        plain(&format!(
            "<</Type/Font/Subtype/Type0/BaseFont/{}/Encoding/Identity-H/DescendantFonts[6 0 R]/ToUnicode 9 0 R>>",
            font.name
        )),
        plain(&format!(
            "<</Type/Font/Subtype/CIDFontType2/BaseFont/{}\
             /CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/FontDescriptor 7 0 R\
             /CIDToGIDMap/Identity/W[{}]>>",
            font.name,
            drawn.widths(font)
        )),
        plain(&format!(
            "<</Type/FontDescriptor/FontName/{}/Flags 32/FontBBox[{bounds}]/ItalicAngle 0\
             /Ascent {high}/Descent {low}/CapHeight {high}/StemV 80/FontFile2 8 0 R>>",
            font.name
        )),
        stream(&format!("/Length1 {}", font.file.len()), font.file),
        stream("", drawn.characters().as_bytes()),
    ];
    let mut out = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
    // The cross-reference table holds the byte offset of each object.
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (at, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", out.len());
        out.extend(format!("{} 0 obj\n", at + 1).bytes());
        out.extend(object);
        out.extend(b"\nendobj\n");
    }
    let start = out.len();
    table += &format!("trailer\n<</Size {}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1);
    out.extend(table.bytes());
    out
}

fn plain(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn stream(keys: &str, bytes: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).expect("memory takes all");
    let packed = packer.finish().expect("memory takes all");
    let head = format!("<</Length {}/Filter/FlateDecode{keys}>>\nstream\n", packed.len());
    [head.as_bytes(), &packed, b"\nendstream"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 440 220\"><style>.plot text{font-size:12px;\
        fill:#1a1c20}.plot path{fill:none}.plot .s1{stroke:#9c3a26;stroke-dasharray:7 2.5}</style><rect width=\"100%\" height=\"100%\" \
        fill=\"#fff\"/><g transform=\"translate(0,10)\"><path class=\"s1\" d=\"M10,20.5H30v4L1,2\"/></g>\
        <text x=\"4\" y=\"9\" text-anchor=\"end\">WAF µ−²</text></svg>";

    fn inflated(file: &[u8]) -> String {
        let text = String::from_utf8_lossy(file);
        assert!(text.starts_with("%PDF-1.7") && text.trim_end().ends_with("%%EOF"));
        let at = file.windows(7).position(|bytes| bytes == b"stream\n").expect("a stream") + 7;
        let mut content = String::new();
        std::io::Read::read_to_string(&mut flate2::read::ZlibDecoder::new(&file[at..]), &mut content)
            .expect("content");
        content
    }

    #[test]
    fn a_page_is_as_large_as_the_picture_on_paper() {
        let of = |svg: &str| String::from_utf8_lossy(&pdf(svg, None).expect("a file")).into_owned();
        assert!(of(SVG).contains("/MediaBox[0 0 330.00 165.00]"));
        let column = sized(SVG, 85.0).expect("a width");
        assert!(column.contains("<svg width=\"85mm\" height=\"42.50mm\" class=\"plot\""), "{column}");
        assert!(of(&column).contains("/MediaBox[0 0 240.94 120.47]"));
        assert_eq!(sized(&column, 170.0).expect("again").matches("mm\"").count(), 2);
        assert!(matches!(sized(SVG, 3.0), Err(PaperError::Width(_))));
    }

    #[test]
    fn strokes_have_their_colours_and_dashes_and_texts_their_glyphs() {
        let content = inflated(&pdf(SVG, None).expect("a file"));
        assert!(content.contains("0.612 0.227 0.149 RG") && content.contains("[7 2.5] 0 d"), "{content}");
        assert!(content.contains("10 30.5 m 30 30.5 l 30 34.5 l 1 12 l"), "{content}");
        // Seven glyphs, none of them the one for missing characters.
        let glyphs = content.split('<').nth(1).and_then(|rest| rest.split('>').next()).expect("a text");
        assert_eq!(glyphs.len(), 28, "{content}");
        assert!(!glyphs.as_bytes().chunks(4).any(|glyph| glyph == b"0000"), "{glyphs}");
        assert_eq!(pdf(SVG, None).expect("a file"), pdf(SVG, None).expect("the same"));
    }

    #[test]
    fn greys_have_the_lightness_of_their_colours() {
        let svg = grey("<a fill=\"#fff\" stroke=\"#9c3a26\"><style>.b{fill:#000}</style>&#8722;#12 é#</a>");
        assert_eq!(
            svg,
            "<a fill=\"#ffffff\" stroke=\"#555555\"><style>.b{fill:#000000}</style>&#8722;#12 é#</a>"
        );
        assert!(inflated(&pdf(&grey(SVG), None).expect("a file")).contains("0.333 0.333 0.333 RG"));
    }

    #[test]
    fn a_font_is_embedded_with_its_name_and_other_files_are_refused() {
        let own = include_bytes!("font.ttf");
        let file = pdf(SVG, Some(own)).expect("a file");
        assert_eq!(file, pdf(SVG, None).expect("a file"));
        assert!(String::from_utf8_lossy(&file).contains("/BaseFont/DejaVuSansCondensed/"));
        for wrong in [&b""[..], b"no font", &own[..200]] {
            let error = pdf(SVG, Some(wrong)).expect_err("refused").to_string();
            assert!(error.starts_with("not a TrueType font (.ttf): "), "{error}");
        }
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        for (svg, said) in [
            ("no svg", "not an SVG"),
            ("<svg/>", "viewBox"),
            ("<svg viewBox=\"0 0 1 1\"><image/></svg>", "image"),
            ("<svg viewBox=\"0 0 9 9\"><path d=\"M1,2Q3\"/></svg>", "Q"),
            ("<svg viewBox=\"0 0 9 9\"><path d=\"M1\"/></svg>", "path"),
            ("<svg viewBox=\"0 0 9 9\"><rect fill=\"blue\"/></svg>", "blue"),
            ("<svg viewBox=\"0 0 9 9\"><rect fill=\"#é0\"/></svg>", "#é0"),
        ] {
            let error = pdf(svg, None).expect_err(svg).to_string();
            assert!(error.contains(said), "{svg}: {error}");
        }
    }
}
