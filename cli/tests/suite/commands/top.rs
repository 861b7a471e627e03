//! `tollgate top`: one frame, JSON, and the live display on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use console::strip_ansi_codes;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::support::{Up, finish, tollgate, wait_for};

const RULES: [&str; 4] = ["--limit", "3/min per api_key", "--limit", "100/min per ip"];

/// Returns a limiter whose callers k1 to k9 are denied, k9 most.
fn busy() -> Up {
    let up = Up::start(&RULES);
    let mut client = up.client();
    for key in 1..=9 {
        for _ in 0..3 + key {
            client.check(&format!("k{key}"));
        }
    }
    wait_for("the denials in the view", || {
        let callers = up.client().get("/api/v1/callers?rule=per-api_key", &[]).json();
        let agents = up.client().get("/api/v1/agents", &[]).json();
        let has_all = agents["agents"][0]["last_minute"]["denied"] == 45;
        (has_all && callers["callers"][0]["denied"] == 9).then_some(())
    });
    up
}

/// Program on a pseudo-terminal of its own, killed on drop.
struct OnTerminal {
    child: Child,
    keyboard: File,
    terminal: File,
    drawn: Arc<Mutex<String>>,
}

impl OnTerminal {
    fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("its other end");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let terminal: File = open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it opens").into();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).expect("a size");
        let copy = || terminal.try_clone().expect("another descriptor");
        command.stdin(copy()).stdout(copy()).stderr(copy()).env("TERM", "xterm").env("LANG", "C.UTF-8");
        let child = command.spawn().expect("the binary runs");
        let (keyboard, drawn) = (File::from(master), Arc::<Mutex<String>>::default());
        let (mut screen, shown) = (keyboard.try_clone().expect("another descriptor"), drawn.clone());
        std::thread::spawn(move || {
            let (mut all, mut bytes) = (Vec::new(), [0; 8_192]);
            while let Ok(len @ 1..) = screen.read(&mut bytes) {
                all.extend_from_slice(&bytes[..len]);
                *shown.lock().unwrap() = String::from_utf8_lossy(&all).into_owned();
            }
        });
        Self { child, keyboard, terminal, drawn }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    fn drawn(&self) -> String {
        self.drawn.lock().unwrap().clone()
    }

    /// Waits for a drawing that contains a text, and returns it.
    fn wait_for(&self, text: &str) -> String {
        wait_for(text, || {
            let drawn = self.drawn();
            let last = strip_ansi_codes(drawn.rsplit("\x1b[J").next()?).into_owned();
            (last.contains(text) && last.contains("q quit")).then_some(last)
        })
    }

    /// Waits for the end of the program. Returns its exit code and the codes that it wrote.
    fn end(mut self) -> (i32, String) {
        let status = wait_for("the end of the program", || self.child.try_wait().unwrap());
        let drawn =
            wait_for("the end of its screen", || Some(self.drawn()).filter(|drawn| drawn.ends_with("\x1b[?1049l")));
        let modes = tcgetattr(&self.terminal).expect("modes").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        (status.code().unwrap(), drawn)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// H6: calls and callers can be read from the command line.
#[test]
fn without_a_terminal_one_frame_is_printed() {
    let up = busy();
    for args in [&[][..], &["--once"], &["--sort", "near"], &["--rule", "per-api_key", "--minutes", "60"]] {
        let said = finish(tollgate(&["top", "--aggregator", &up.url()]).args(args));
        assert_eq!((said.exit, &*said.err), (0, ""), "{}", said.err);
        assert!(said.out.is_ascii(), "no locale is set: {}", said.out);
        assert!(
            said.out.lines().all(|line| line.chars().count() <= 80) && said.out.lines().count() <= 23,
            "{}",
            said.out
        );
        for expected in
            [" calls/s ", "\nadmitted ", "\ndenied ", "\nper-api_key ", "api_key=k9", "\ngw-1 ", " agent\n", &*up.url()]
        {
            assert!(said.out.contains(expected), "{expected}: {}", said.out);
        }
        let agent: Vec<&str> = said.out.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(agent[..5], ["gw-1", "default", "27", "45", "ok"], "{}", said.out);
    }
    let utf8 = finish(tollgate(&["top", "--aggregator", &up.url(), "--rule", "per-api_key"]).env("LC_ALL", "C.UTF-8"));
    let rows: Vec<&str> = utf8.out.lines().filter(|line| line.contains("api_key=k")).collect();
    assert!(rows[0].contains("api_key=k9…") && rows[1].contains("api_key=k8…"), "{}", utf8.out);
}

#[test]
fn json_is_one_object_with_the_answers_of_the_aggregator() {
    let up = busy();
    let said = finish(&mut tollgate(&["top", "--aggregator", &up.url(), "--once", "--format", "json"]));
    let top: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.exit, said.out.lines().count(), &top["url"]), (0, 1, &up.url().into()));
    assert_eq!((&top["status"]["agents"], &top["callers"]["callers"][0]["denied"]), (&1.into(), &9.into()));
    assert_eq!((&top["agents"][0]["agent"], top["rules"].as_array().map(Vec::len)), (&"gw-1".into(), Some(2)));
    assert!(top["series"]["points"].is_array());
    let keys: Vec<Value> =
        ["status", "series", "rules", "callers", "agents"].iter().map(|key| top[key].clone()).collect();
    assert!(keys.iter().all(|answer| !answer.is_null()), "{top}");
}

#[test]
fn if_nobody_answers_it_is_4_and_an_unknown_rule_is_1() {
    let up = Up::start(&RULES);
    let silent = finish(&mut tollgate(&["top", "--aggregator", "127.0.0.1:1"]));
    assert_eq!((silent.exit, &*silent.out), (4, ""));
    assert!(
        silent.err.contains("no aggregator answers at http://127.0.0.1:1 (") && silent.err.contains("tollgate up"),
        "{}",
        silent.err
    );
    let unknown = finish(&mut tollgate(&["top", "--aggregator", &up.url(), "--rule", "nope"]));
    assert_eq!((unknown.exit, &*unknown.out), (1, ""));
    assert!(unknown.err.contains("a rule `nope`"), "{}", unknown.err);
    for args in [&["--aggregator", "http://h/path"][..], &["--minutes", "61"], &["--sort", "name"]] {
        assert_eq!(finish(tollgate(&["top"]).args(args)).exit, 2, "{args:?}");
    }
}

#[test]
fn keys_sort_filter_and_quit_and_the_terminal_is_restored() {
    let up = busy();
    let mut top = OnTerminal::start(tollgate(&["top", "--aggregator", &up.url()]));
    let first = top.wait_for("callers by denials");
    let lines: Vec<&str> = first.lines().collect();
    assert!(lines.len() == 23 && lines.iter().all(|line| line.chars().count() <= 80), "{first}");
    for (key, expected) in [
        ("c", "callers by calls"),
        ("n", "callers by the used part of their quota"),
        ("w", "callers by first denial"),
        ("d", "callers by denials"),
        ("r", "last 5 min, rule per-api_key"),
        ("\x1b[B", "2-9 of 9 callers"),
        ("\x1b[6~", "9-9 of 9 callers"),
        ("\x1b[5~", "1-9 of 9 callers"),
        ("r", "last 5 min, rule per-ip"),
    ] {
        top.press(key);
        top.wait_for(expected);
    }
    top.press("q");
    let (exit, drawn) = top.end();
    assert_eq!((exit, drawn.matches("\x1b[?1049h").count()), (0, 1));
}

#[test]
fn the_last_data_stay_while_the_aggregator_is_lost_and_ctrl_c_ends_it() {
    let up = busy();
    let address = up.address.to_string();
    let mut top = OnTerminal::start(tollgate(&["top", "--aggregator", &address]));
    top.wait_for("api_key=k9");
    drop(up);
    let lost = top.wait_for("old data: no answer since ");
    assert!(lost.contains("api_key=k9") && lost.contains("UTC ("), "{lost}");
    let _again = Up::of(tollgate(&["up", "--http", &address, "--node", "gw-9"]).args(RULES));
    let found = top.wait_for("gw-9");
    assert!(!found.contains("old data"), "{found}");
    top.press("\x03");
    assert_eq!(top.end().0, 0);
}

#[test]
fn a_terminal_of_another_size_gets_a_frame_of_that_size() {
    let up = busy();
    let top = OnTerminal::start(tollgate(&["top", "--aggregator", &up.url()]));
    top.wait_for("callers by denials");
    let size = Winsize { ws_row: 40, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&top.terminal, size).expect("a size");
    let frame =
        wait_for("a frame of 39 lines", || Some(top.wait_for("callers")).filter(|frame| frame.lines().count() == 39));
    assert!(frame.lines().all(|line| line.chars().count() <= 60), "{frame}");
    let kill = Command::new("kill").arg(top.child.id().to_string()).status().expect("kill runs");
    assert!(kill.success());
    assert_eq!(top.end().0, 0, "SIGTERM restores the terminal");
}
