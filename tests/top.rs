//! `couplet top` in front of a couplet under load, and what it leaves of the terminal.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::json;
use support::chat::chat;
use support::couplet::Couplet;
use support::{http, pool};

const TOP: &str = env!("CARGO_BIN_EXE_couplet");

async fn once(url: &str) -> Output {
    let command =
        Command::new(TOP).args(["top", "--once", "--interval", "1", "--url", url]).stdin(Stdio::null()).output();
    let output = tokio::task::spawn_blocking(move || command).await.unwrap();
    output.unwrap()
}

/// The words of the first line that begins with these, behind frames.
fn words(screen: &str, start: &str) -> Vec<String> {
    let mut parts = screen.lines().flat_map(|line| line.split('│')).map(str::trim);
    let rest = parts.find_map(|part| part.strip_prefix(start)).unwrap_or_else(|| panic!("no {start} in\n{screen}"));
    rest.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_screen_tells_what_runs() {
    // The median of first tokens that take 150 ms lies between 0.1 and 0.25, the bounds of their bucket; that of tokens that
    // come every 15 ms between 0.01 and 0.025.
    let engine = pool::slow_engine(150, 15).await;
    let couplet = Couplet::with_flags(&[&engine.url, "http://127.0.0.1:1"], &["--admin", "127.0.0.1:0"]);
    let url = format!("{}/v1/chat/completions", couplet.url);
    let load: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                let body =
                    chat("</think>\n\nOne, two, three, four, five, six, seven, eight, nine.", json!({"stream": true}));
                loop {
                    http::post(&url, &body).await;
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let output = once(couplet.admin.as_ref().unwrap()).await;
    load.iter().for_each(tokio::task::JoinHandle::abort);
    let screen = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(screen.starts_with(&format!(" couplet {} at http://127", env!("CARGO_PKG_VERSION"))), "{screen}");
    assert!(screen.contains("serves tiny"), "{screen}");
    let rate: f64 = words(&screen, "200")[0].parse().unwrap();
    assert!(0.0 < rate && rate < 40.0, "four at once, each of at least 150 ms:\n{screen}");
    let in_flight: f64 = words(&screen, "requests in flight")[0].parse().unwrap();
    assert!((1.0..=4.0).contains(&in_flight), "{screen}");
    let median = |what| {
        let words = words(&screen, what);
        assert_eq!(words[1], "ms", "{screen}");
        words[0].parse::<f64>().unwrap()
    };
    assert!((100.0..=250.0).contains(&median("first token")), "{screen}");
    assert!((10.0..=25.0).contains(&median("between tokens")), "{screen}");
    let row = words(&screen, engine.url.trim_start_matches("http://"));
    assert_eq!(row[..3], ["tiny", "up", "closed"], "{screen}");
    assert!((1..=4).contains(&row[3].parse::<u32>().unwrap()), "requests at the engine:\n{screen}");
    let dead = words(&screen, "127.0.0.1:1 ");
    assert_eq!(dead[0], "tiny");
    assert!(["down", "out"].contains(&dead[1].as_str()), "{screen}");
}

#[tokio::test]
async fn a_couplet_that_does_not_answer_is_told() {
    let output = once("http://127.0.0.1:1").await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("couplet at http://127.0.0.1:1 does not answer: Connection refused"), "{said}");
    let couplet = Couplet::with_flags(&[], &["--admin", "127.0.0.1:0"]);
    let output = once(&couplet.url).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("with --admin it has them there"), "{said}");
}

#[test]
fn without_a_terminal_there_is_the_text() {
    let output = Command::new(TOP).arg("top").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--once"));
}

/// Runs a shell command on a terminal of its own, presses keys after a second, and tells all that the terminal was sent.
#[cfg(target_os = "linux")]
fn on_a_terminal(command: &str, keys: &str) -> String {
    let command = format!("stty rows 30 cols 100; {command}; echo code $?; stty -a");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Keys, signals: the terminal is left as it was found, and what is wrong with couplet ends nothing.
#[cfg(target_os = "linux")]
#[test]
fn the_terminal_is_restored_however_it_ends() {
    let top = format!("{TOP} top --interval 0.2 --url http://127.0.0.1:1");
    let cases = [
        (top.clone(), "q"),
        (top.clone(), "\u{3}"),
        (format!("timeout --preserve-status --foreground -s TERM 2 {top}"), "p"),
    ];
    for (command, keys) in cases {
        let seen = on_a_terminal(&command, keys);
        let (during, after) =
            seen.split_once("\u{1b}[?1049l").unwrap_or_else(|| panic!("{command} leaves the screen: {seen}"));
        assert!(during.contains("\u{1b}[?1049h") && during.contains("Connection refused"), "{seen}");
        assert!(after.contains("code 0"), "{seen}");
        assert!(after.contains(" icanon ") && after.contains(" echo "), "raw: {after}");
        assert!(after.contains("\u{1b}[?25h"), "the cursor is hidden: {after:?}");
    }
}
