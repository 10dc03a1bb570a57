//! Font of PDF files. The default is DejaVu Sans Condensed with Latin, Greek and mathematical symbols
//! (`FONT-LICENSE`).

use ttf_parser::{Face, GlyphId, name_id};

use super::PaperError;

const FILE: &[u8] = include_bytes!("font.ttf");

pub(super) struct Font<'a> {
    face: Face<'a>,
    pub(super) file: &'a [u8],
    /// PostScript name, of letters, digits and dashes.
    pub(super) name: String,
}

impl<'a> Font<'a> {
    pub(super) fn embedded() -> Font<'static> {
        Font::of(FILE).expect("the font that comes along is sound")
    }

    /// Reads a font with TrueType outlines.
    pub(super) fn of(file: &'a [u8]) -> Result<Self, PaperError> {
        let face = Face::parse(file, 0).map_err(|error| PaperError::Font(error.to_string()))?;
        if face.tables().glyf.is_none() {
            return Err(PaperError::Font("it has no TrueType outlines".to_owned()));
        }
        let names = face.names().into_iter().filter(|name| name.name_id == name_id::POST_SCRIPT_NAME);
        let name: String = names.filter_map(|name| name.to_string()).next().unwrap_or_default();
        let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        let name = Some(name.chars().filter(plain).collect::<String>()).filter(|name| !name.is_empty());
        Ok(Self { face, file, name: name.unwrap_or_else(|| "Font".to_owned()) })
    }

    /// Glyph 0 stands for missing characters.
    pub(super) fn glyph(&self, c: char) -> u16 {
        self.face.glyph_index(c).unwrap_or(GlyphId(0)).0
    }

    fn thousandths(&self, value: f64) -> f64 {
        value * 1000.0 / f64::from(self.face.units_per_em())
    }

    pub(super) fn width(&self, glyph: u16) -> f64 {
        self.thousandths(self.face.glyph_hor_advance(GlyphId(glyph)).unwrap_or(0).into())
    }

    /// Descender and ascender, in thousandths of the font size.
    pub(super) fn heights(&self) -> (i64, i64) {
        let of = |value: i16| libm::round(self.thousandths(value.into())) as i64;
        (of(self.face.descender()), of(self.face.ascender()))
    }

    pub(super) fn bounds(&self) -> String {
        let bounds = self.face.global_bounding_box();
        let ends = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max];
        ends.map(|end| format!("{:.0}", self.thousandths(end.into()))).join(" ")
    }
}
