//! The order of several files, whose lines are numbered as if the files stood one below the other.
//!
//! So a line alone tells its file, and a check between two rules needs no more than their lines.

use saphyr::{MarkedYaml, ScanError, YamlLoader};
use saphyr_parser::{Event, Marker, Parser, Span, SpannedEventReceiver};

/// Names of files, and the number of lines before each.
pub(super) struct FileOrder<'f> {
    files: Vec<(&'f str, usize)>,
    /// Lines of all files.
    len: usize,
}

/// Loader of a file whose lines are numbered after those of the files before it.
struct LoaderFrom<'l, 'y> {
    loader: &'l mut YamlLoader<'y, MarkedYaml<'y>>,
    /// Number of lines of the files before it.
    before: usize,
}

impl<'f> FileOrder<'f> {
    pub(super) fn new(file: &'f str) -> Self {
        Self { files: vec![(file, 0)], len: 0 }
    }

    /// Adds a file after the lines so far.
    pub(super) fn add_file(&mut self, file: &'f str) {
        self.files.push((file, self.len));
    }

    /// Adds the lines of a text to the last file, and returns the number of its first line.
    pub(super) fn add_text(&mut self, text: &str) -> usize {
        let first = self.last().1 + 1;
        // The parser may name the line behind the last one.
        self.len += text.lines().count() + 1;
        first
    }

    /// Returns the name of the last file, and the number of lines before it.
    pub(super) fn last(&self) -> (&'f str, usize) {
        self.files.last().copied().unwrap_or_default()
    }

    /// Returns the file of a line, and its number there.
    pub(super) fn place(&self, line: usize) -> (&'f str, usize) {
        let file = self.files.iter().rev().find(|(_, before)| *before < line);
        file.map_or((self.files[0].0, line), |(file, before)| (*file, line - before))
    }

    /// Returns the order of a place such as `rules.yaml:12` among all lines; none if it is in no file.
    pub(super) fn order(&self, place: &str) -> Option<(usize, usize)> {
        let (file, line) = place.rsplit_once(':')?;
        Some((self.files.iter().position(|(known, _)| *known == file)?, line.parse().ok()?))
    }
}

/// Parses all documents of a text whose first line has this number.
///
/// # Errors
/// Returns the line and the reason of the parser.
pub(super) fn parse(text: &str, first_line: usize) -> Result<Vec<MarkedYaml<'_>>, (usize, String)> {
    let mut loader = YamlLoader::default();
    loader.early_parse(false);
    let mut numbered = LoaderFrom { loader: &mut loader, before: first_line - 1 };
    let parsed: Result<(), ScanError> = Parser::new_from_str(text).load(&mut numbered, true);
    if let Err(error) = parsed {
        return Err((error.marker().line().max(1) + first_line - 1, error.info().to_owned()));
    }
    // The loader knows the lines that it was given.
    match loader.error() {
        Some(error) => Err((error.marker().line().max(first_line), error.info().to_owned())),
        None => Ok(loader.into_documents()),
    }
}

impl<'y> SpannedEventReceiver<'y> for LoaderFrom<'_, 'y> {
    fn on_event(&mut self, event: Event<'y>, span: Span) {
        let moved = |at: Marker| Marker::new(at.index(), at.line() + self.before, at.col());
        self.loader.on_event(event, Span::new(moved(span.start), moved(span.end)));
    }
}
