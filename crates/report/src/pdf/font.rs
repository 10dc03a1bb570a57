//! Font of PDF files: DejaVu Sans Condensed with Latin, Greek and mathematical symbols (`FONT-LICENSE`).

use ttf_parser::{Face, GlyphId};

pub(super) const FILE: &[u8] = include_bytes!("font.ttf");

pub(super) struct Font {
    face: Face<'static>,
}

impl Font {
    pub(super) fn embedded() -> Self {
        Self { face: Face::parse(FILE, 0).expect("the font that comes along is sound") }
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
