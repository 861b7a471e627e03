//! A picture as a file of its own: with its title, and on paper of the theme's colour, so that it can be read in any viewer.
//!
//! The page of a report has both already, and therefore contains the drawing alone.

use maud::{PreEscaped, html};

use super::plot::{FONT, PAPER, SIZE, TEXT};

/// Height of a line of the title, and room above the drawing, in pixels.
const LINE: usize = 21;
const MARGIN: usize = 10;
/// Longest line of the title, in characters: it is as wide as the drawing in a wide font.
const LINE_LEN_MAX: usize = 48;

/// Returns the file of a drawing with this title.
pub(super) fn framed(title: &str, drawing: &str) -> String {
    let lines = lines(title);
    let (width, height) = SIZE;
    let top = MARGIN + LINE * lines.len();
    let height = top + height as usize;
    // A drawing is an element of its own within the picture.
    let drawing = drawing.replacen("<svg ", &format!("<svg y=\"{top}\" "), 1);
    let picture = html! {
        svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } xmlns="http://www.w3.org/2000/svg" {
            rect width="100%" height="100%" fill=(PAPER) {}
            @for (place, line) in (1..).zip(lines) {
                text x="16" y=(place * LINE) font-family=(FONT) font-size="16" font-weight="bold" fill=(TEXT) { (line) }
            }
            (PreEscaped(drawing))
        }
    };
    picture.into_string()
}

/// Breaks a title between its words.
fn lines(title: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split_whitespace() {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= LINE_LEN_MAX) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_title_above_the_drawing_and_a_background() {
        let title = "A finding & more: a hundred calls pass, as many as the quota has, and the others are denied";
        let file = framed(title, "<svg width=\"560\"><path/></svg>");
        for expected in [
            "height=\"392\"",
            "fill=\"#FFFFFF\"",
            ">A finding &amp; more: ",
            "<svg y=\"52\" width=\"560\"><path/></svg>",
        ] {
            assert!(file.contains(expected), "{expected}: {file}");
        }
        assert_eq!(lines(title).join(" "), title);
        assert!(lines(title).len() == 2 && lines(title).iter().all(|line| line.len() <= LINE_LEN_MAX), "{file}");
    }
}
