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

/// Converts `svg`, a standalone figure file, to PDF.
pub fn pdf(svg: &str) -> Result<Vec<u8>, PaperError> {
    let document = roxmltree::Document::parse(svg)?;
    let root = document.root_element();
    let (width, height) = drawing::extent(root)?;
    let mm = root.attribute("width").and_then(|width| width.strip_suffix("mm")?.parse::<f64>().ok());
    let scale = match mm {
        Some(mm) if (1.0..=1000.0).contains(&mm) => mm * POINTS_PER_MM / width,
        _ => POINTS_PER_UNIT,
    };
    let font = Font::embedded();
    let drawn = drawing::draw(root, &font, scale, height)?;
    Ok(file(&font, &drawn, (width * scale, height * scale)))
}

fn file(font: &Font, drawn: &Drawn, (width, height): (f64, f64)) -> Vec<u8> {
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
        plain(
            "<</Type/Font/Subtype/Type0/BaseFont/DejaVuSansCondensed/Encoding/Identity-H/DescendantFonts[6 0 R]\
             /ToUnicode 9 0 R>>",
        ),
        plain(&format!(
            "<</Type/Font/Subtype/CIDFontType2/BaseFont/DejaVuSansCondensed\
             /CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/FontDescriptor 7 0 R\
             /CIDToGIDMap/Identity/W[{}]>>",
            drawn.widths(font)
        )),
        plain(&format!(
            "<</Type/FontDescriptor/FontName/DejaVuSansCondensed/Flags 32/FontBBox[{bounds}]/ItalicAngle 0\
             /Ascent {high}/Descent {low}/CapHeight {high}/StemV 80/FontFile2 8 0 R>>"
        )),
        stream(&format!("/Length1 {}", font::FILE.len()), font::FILE),
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
        let of = |svg: &str| String::from_utf8_lossy(&pdf(svg).expect("a file")).into_owned();
        assert!(of(SVG).contains("/MediaBox[0 0 330.00 165.00]"));
        let column = sized(SVG, 85.0).expect("a width");
        assert!(column.contains("<svg width=\"85mm\" height=\"42.50mm\" class=\"plot\""), "{column}");
        assert!(of(&column).contains("/MediaBox[0 0 240.94 120.47]"));
        assert_eq!(sized(&column, 170.0).expect("again").matches("mm\"").count(), 2);
        assert!(matches!(sized(SVG, 3.0), Err(PaperError::Width(_))));
    }

    #[test]
    fn strokes_have_their_colours_and_dashes_and_texts_their_glyphs() {
        let content = inflated(&pdf(SVG).expect("a file"));
        assert!(content.contains("0.612 0.227 0.149 RG") && content.contains("[7 2.5] 0 d"), "{content}");
        assert!(content.contains("10 30.5 m 30 30.5 l 30 34.5 l 1 12 l"), "{content}");
        // Seven glyphs, none of them the one for missing characters.
        let glyphs = content.split('<').nth(1).and_then(|rest| rest.split('>').next()).expect("a text");
        assert_eq!(glyphs.len(), 28, "{content}");
        assert!(!glyphs.as_bytes().chunks(4).any(|glyph| glyph == b"0000"), "{glyphs}");
        assert_eq!(pdf(SVG).expect("a file"), pdf(SVG).expect("the same"));
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
            let error = pdf(svg).expect_err(svg).to_string();
            assert!(error.contains(said), "{svg}: {error}");
        }
    }
}
