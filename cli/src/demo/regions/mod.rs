//! The demo of regions: one quota over three regions, a load that moves, and a region that is cut off, in twenty seconds.
//!
//! The parts are the production ones, in wall time ([`local_regions`](crate::local_regions)). Callers use one key. At the end, an
//! exact limiter over the same calls shows what one store for all regions would have admitted.

mod story;
mod record;
mod load;
mod board;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::{Agent, Rule, RuleSet};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::window::Window;

use crate::board::Board;
use crate::demo::record::DemoRecord;
use crate::local_regions::start_local_regions;
use record::RegionFigures;
use story::{LENGTH, QUOTA_WIDTH_MS, REGIONS, STORY, chapter_at, quota};

const FLOOR_PPM: u32 = 50_000;
const SUB_WINDOWS: u32 = 20;
/// Time of one way from another region to the ledger.
const LINK_DELAY: Duration = Duration::from_millis(40);
/// Time between two drawings on a terminal.
const REDRAW: Duration = Duration::from_millis(200);

/// Runs the demo inside a tokio runtime and displays it on `out`: as a live table on a terminal, otherwise as plain lines.
pub(super) async fn run(out: &mut (dyn Write + Send), terminal: bool) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let agents = REGIONS.map(|_| Agent::builder().rules(rules()));
    let regions = start_local_regions(&rules(), agents, LINK_DELAY, &clock)?;
    let record = Arc::new(Mutex::new(DemoRecord::default()));
    let mut board = Board::new(out, terminal, REDRAW);
    board::begin(&mut board)?;
    let since = Stopwatch::start();
    let callers = load::start(&regions, &record, since);
    let mut ticks = tokio::time::interval(board.interval());
    let mut figures = [RegionFigures::default(); REGIONS.len()];
    let mut chapters = STORY.iter().peekable();
    while since.elapsed() < LENGTH {
        ticks.tick().await;
        let at = since.elapsed();
        if let Some(chapter) = chapters.next_if(|chapter| at >= chapter.from) {
            for (number, region) in regions.iter().enumerate() {
                region.link.set_cut(chapter.cut_off == Some(number));
            }
            board.event(at, chapter.what)?;
        }
        if record::update(&mut figures, &mut record.lock()) {
            board::show(&mut board, at, &figures, chapter_at(at).cut_off)?;
        }
    }
    callers.join_all().await;
    for region in regions {
        region.stop().await;
    }
    let summary = record::summary(&record.lock());
    Ok(board::end(&mut board, &summary)?)
}

fn rules() -> RuleSet {
    let window = Window::new(QUOTA_WIDTH_MS, SUB_WINDOWS).expect("a divisor of the width");
    let rule = Rule::per("shared", &["api_key"], quota()).global().with(|policy| policy.window = window);
    let mut set = RuleSet::new(1, [rule]);
    set.regions = REGIONS.map(|region| RegionFloorRatio { region: region.into(), floor_ppm: FLOOR_PPM }).into();
    set
}
