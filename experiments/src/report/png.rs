//! Pictures as PNG, for pages that show no SVG: in the light theme, with a font that is part of the program. The feature is
//! off by default, because browsers and GitHub show SVG, and `resvg` brings 35 packages.

use std::sync::Arc;

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

/// Latin part of DejaVu Sans; its licence is beside it.
const FONT: &[u8] = include_bytes!("../../fonts/DejaVuSans-latin.ttf");
const FONT_NAME: &str = "DejaVu Sans";
/// Pixels of the picture for each unit of the SVG, for dense screens and print.
const SCALE: f32 = 2.0;

/// Draws an SVG.
///
/// # Errors
/// If the text is not an SVG with a size, or the picture cannot be encoded. The error is the reason, by the library.
pub(super) fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FONT_NAME);
    let options = Options { fontdb: Arc::new(fonts), font_family: FONT_NAME.to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or("it has no size")?;
    let mut picture = Pixmap::new(size.width(), size.height()).ok_or("it is too large")?;
    picture.fill(Color::WHITE);
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
    picture.encode_png().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

    /// Without the font, the picture with a text would be the empty one.
    #[test]
    fn a_picture_shows_its_text() {
        let of = |text: &str| {
            let text = format!("<text x=\"5\" y=\"20\" font-family=\"sans-serif\" font-size=\"16\">{text}</text>");
            png(&format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"80\" height=\"30\">{text}</svg>")).unwrap()
        };
        assert!(of("calls").starts_with(SIGNATURE));
        assert_ne!(of("calls"), of(""));
        assert!(png("<p/>").is_err());
    }
}
