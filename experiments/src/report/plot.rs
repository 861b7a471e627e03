//! Plots as SVG, which a browser shows in its light or dark theme.
//!
//! The colours of the light theme, which paper shows as well, are in the elements; a style sheet in the picture replaces them where
//! the reader prefers dark. Texts have the reader's own sans-serif font, so no font is needed to draw.

use maud::html;
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::drawing::{DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::PathElement;
use plotters::prelude::{Color, LineSeries, RGBColor, SVGBackend};
use plotters::style::{IntoFont, ShapeStyle};
use tollgate_sim::figures::count;

use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Size in pixels: a phone shows it at two thirds.
pub(super) const SIZE: (u32, u32) = (560, 340);
pub(super) const FONT: &str = "sans-serif";
/// Largest number of labels of a linear axis, and of decades of a logarithmic one.
const LABELS_MAX: usize = 11;
const DECADES_MAX: usize = 5;
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const GRID: RGBColor = RGBColor(0xd0, 0xd7, 0xde);
const TRUTH: RGBColor = RGBColor(0x8c, 0x95, 0x9f);
const LIMIT: RGBColor = RGBColor(0xcf, 0x22, 0x2e);
const MEASURED: [RGBColor; 5] = [
    RGBColor(0xd4, 0x57, 0x0a),
    RGBColor(0x09, 0x69, 0xda),
    RGBColor(0x1a, 0x7f, 0x37),
    RGBColor(0x82, 0x50, 0xdf),
    RGBColor(0xbf, 0x39, 0x89),
];
/// Dashes of measured lines, by their light colours. The others are solid.
const DASHES: [(&str, &str); 3] = [("#D4570A", "3 2"), ("#1A7F37", "9 3"), ("#8250DF", "5 4")];
/// Colour of texts, and of the paper of a picture that stands alone.
pub(super) const TEXT: &str = "#24292F";
pub(super) const PAPER: &str = "#FFFFFF";
/// Light colour, and the dark theme's.
const DARK: [(&str, &str); 10] = [
    (TEXT, "#e6edf3"),
    ("#D0D7DE", "#30363d"),
    ("#8C959F", "#8b949e"),
    ("#CF222E", "#ff7b72"),
    ("#D4570A", "#f0883e"),
    ("#0969DA", "#58a6ff"),
    ("#1A7F37", "#3fb950"),
    ("#8250DF", "#a371f7"),
    ("#BF3989", "#f778ba"),
    (PAPER, "#0d1117"),
];

/// Fails if the library cannot draw, such as an empty range of an axis.
pub(super) fn svg(plot: &Plot) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let ([x_min, x_max], [y_min, y_max]) = (plot.x.range.map(|x| drawn_at(&plot.x, x)), plot.y.range);
        // The legend is above the lines.
        let lines = plot.series.iter().fold(0.0, |lines, _| lines + 1.0);
        let y_max = y_min + (y_max - y_min) * (1.15 + 0.1 * lines);
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(x_min..x_max, y_min..y_max)?;
        let label = (FONT, 15).into_font().color(&INK);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .axis_style(INK)
            .label_style(label.clone())
            .x_desc(&plot.x.label)
            .y_desc(&plot.y.label)
            .x_labels(if plot.x.is_logarithmic { DECADES_MAX } else { LABELS_MAX })
            .axis_desc_style((FONT, 16).into_font().color(&INK))
            .x_label_formatter(&|value| if plot.x.is_logarithmic { power(*value) } else { short(*value) })
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        let mut measured = MEASURED.iter().cycle();
        let styled = plot.series.iter().map(|series| {
            let style = match series.role {
                SeriesRole::Truth => TRUTH.stroke_width(3),
                SeriesRole::Limit => LIMIT.stroke_width(1),
                SeriesRole::Measured => measured.next().unwrap_or(&INK).stroke_width(2),
            };
            (series, style)
        });
        let mut styled: Vec<(&Series, ShapeStyle)> = styled.collect();
        // The legend has the order of the series.
        for (Series { name, .. }, style) in &styled {
            let style = *style;
            chart
                .draw_series(std::iter::empty::<PathElement<(f64, f64)>>())?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        // Of two lines that lie on each other, the later one is seen in the gaps of the earlier one, and the truth behind both.
        styled.reverse();
        styled.sort_by_key(|(series, _)| layer(series.role));
        for (Series { points, .. }, style) in styled {
            chart.draw_series(LineSeries::new(points.iter().map(|(x, y)| (drawn_at(&plot.x, *x), *y)), style))?;
        }
        chart.configure_series_labels().position(SeriesLabelPosition::UpperRight).label_font(label).draw()?;
        area.present()?;
    }
    let rule = |(light, dark)| format!("[stroke=\"{light}\"]{{stroke:{dark}}}[fill=\"{light}\"]{{fill:{dark}}}");
    let dark = DARK.map(rule).concat();
    let dashes = DASHES.map(|(color, dashes)| format!("[stroke=\"{color}\"]{{stroke-dasharray:{dashes}}}")).concat();
    let style = format!("<style>{dashes}@media screen and (prefers-color-scheme:dark){{{dark}}}</style>");
    // Screen readers and tooltips name a picture by its title.
    let title = html! { title { (plot.title) } }.into_string();
    let head = text.find('>').map_or(0, |end| end + 1);
    text.insert_str(head, &(title + &style));
    Ok(text)
}

/// Returns the layer of a line, from the lowest on.
fn layer(role: SeriesRole) -> u8 {
    match role {
        SeriesRole::Truth => 0,
        SeriesRole::Limit => 1,
        SeriesRole::Measured => 2,
    }
}

/// Returns the place of a value on an axis.
fn drawn_at(axis: &Axis, value: f64) -> f64 {
    if axis.is_logarithmic { value.log10() } else { value }
}

/// Formats the label of a tick at a whole power of 10; other ticks have none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a power of 10 from 1 on")]
fn power(exponent: f64) -> String {
    let is_whole = exponent >= 0.0 && (exponent - exponent.round()).abs() < 1e-6;
    if is_whole { count(10_f64.powf(exponent).round() as u64) } else { String::new() }
}

/// Formats the label of a tick.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a whole number above 0")]
fn short(value: f64) -> String {
    if value >= 1_000.0 && value.fract() == 0.0 {
        return count(value as u64);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_labels_and_follows_the_theme() {
        let axis = |label: &str| Axis::new(label, [0.0, 2.0]);
        let series = |name: &str, role| Series { name: name.to_owned(), role, points: vec![(0.0, 1.0), (2.0, 0.5)] };
        let plot = Plot {
            name: "p".to_owned(),
            title: "A finding & more".to_owned(),
            x: axis("time, s"),
            y: axis("calls <"),
            series: vec![
                series("true", SeriesRole::Truth),
                series("limit", SeriesRole::Limit),
                series("count", SeriesRole::Measured),
                series("other", SeriesRole::Measured),
            ],
        };
        let svg = svg(&plot).unwrap();
        let place = |text: &str| svg.find(text).unwrap_or_else(|| panic!("{text}: {svg}"));
        let drawn = |color: &str| place(&format!("fill=\"none\" opacity=\"1\" stroke=\"{color}\""));
        assert!(drawn("#8C959F") < drawn("#CF222E") && drawn("#CF222E") < drawn("#0969DA"), "{svg}");
        assert!(drawn("#0969DA") < drawn("#D4570A"), "the dashed line is over the solid one: {svg}");
        assert!(place("\ntrue\n") < place("\nlimit\n") && place("\ncount\n") < place("\nother\n"), "{svg}");
        for expected in [
            "<title>A finding &amp; more</title>",
            "time, s",
            "calls &lt;",
            "limit",
            "count",
            "prefers-color-scheme:dark",
            FONT,
        ] {
            assert!(svg.contains(expected), "{expected}: {svg}");
        }
        let (_, drawing) = svg.split_once("</style>").expect("a style");
        for (light, _) in &DARK[..5] {
            assert!(drawing.contains(light), "{light} is drawn: {drawing}");
        }
    }

    #[test]
    fn labels_have_thousands_separators() {
        for (value, expected) in
            [(0.0, "0"), (0.25, "0.25"), (999.5, "999.5"), (1_000.0, "1,000"), (50_000.0, "50,000")]
        {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn a_logarithmic_axis_names_powers_of_ten() {
        let points = vec![(2.0, 1.0), (1_000.0, 0.5)];
        let plot = Plot {
            name: "p".to_owned(),
            title: String::new(),
            x: Axis::logarithmic("agents", [1.0, 1_100.0]),
            y: Axis::new("calls", [0.0, 1.0]),
            series: vec![Series { name: "count".to_owned(), role: SeriesRole::Measured, points }],
        };
        let svg = svg(&plot).unwrap();
        let texts: Vec<&str> = svg.split("<text").filter_map(|text| text.split('\n').nth(1)).collect();
        assert!(["1", "10", "100", "1,000"].iter().all(|label| texts.contains(label)), "{texts:?}");
        assert!(!texts.contains(&"3"), "{texts:?}");
    }
}
