//! The page at `/` of a running process: in a browser, and its files.

mod browser;
mod files;
