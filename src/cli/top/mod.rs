//! `couplet top`: a couplet that runs elsewhere, on one screen.
//!
//! ```text
//! /metrics, /debug/engines ─▶ scrape ─▶ figures ─▶ view ─▶ draw ─▶ terminal
//!                             text to    of two     and     cells    or text, once
//!                             series     scrapes    keys
//! ```
//!
//! It asks as any scraper would, and keeps asking a couplet that is away. It changes nothing there.

mod draw;
mod exposition;
mod figures;
mod source;
mod told;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;

use source::{Look, Source};
use view::View;

/// Flags of `couplet top`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Where couplet is: its admin address, where it has one.
    #[arg(long, default_value = "http://127.0.0.1:8000", value_name = "URL")]
    pub url: String,
    /// A key for what only those see that have one: how the engines' breakers stand. An admin address needs none.
    #[arg(long, env = "COUPLET_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Seconds between two looks.
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    pub interval: Duration,
    /// Print one screen as text after two looks, and exit.
    #[arg(long)]
    pub once: bool,
}

/// Columns of the text where the terminal does not say.
const WIDTH: u16 = 100;
/// Exit code where couplet does not answer, or there is no terminal.
const FAILED: u8 = 1;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "is no time; give seconds from 0.1 to 3600".to_owned())
}

/// Why it ends early.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error("the runtime cannot be started: {0}")]
    Runtime(#[from] crate::app::StartError),
    #[error("the HTTP client cannot be set up: {0}")]
    Client(#[from] reqwest::Error),
    #[error("couplet at {url} does not answer: {reason}")]
    Away { url: String, reason: String },
    #[error("this is no terminal; --once prints one screen as text")]
    NoTerminal,
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// Runs it to its end.
pub fn run(options: &Options) -> ExitCode {
    let ran = super::runtime().map_err(TopError::from).and_then(|runtime| {
        let source = Source::new(&options.url, options.api_key.clone())?;
        runtime
            .block_on(async { if options.once { once(&source, options).await } else { watch(source, options).await } })
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the reason why there is nothing to see")]
            {
                eprintln!("couplet top: {error}");
            }
            ExitCode::from(FAILED)
        }
    }
}

/// Two looks, and what they say as text.
async fn once(source: &Source, options: &Options) -> Result<(), TopError> {
    let mut view = View::new(&options.url);
    view.looked(source.look().await);
    tokio::time::sleep(options.interval).await;
    view.looked(source.look().await);
    if let Some((reason, _)) = view.away {
        return Err(TopError::Away { url: options.url.clone(), reason });
    }
    let width = if io::stdout().is_terminal() { event_width() } else { WIDTH };
    #[expect(clippy::print_stdout, reason = "printing is what it is for")]
    {
        print!("{}", draw::text(&view, width));
    }
    Ok(())
}

fn event_width() -> u16 {
    ratatui::crossterm::terminal::size().map_or(WIDTH, |(width, _)| width)
}

/// Draws again and again, until a key or a signal says stop.
async fn watch(source: Source, options: &Options) -> Result<(), TopError> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let mut view = View::new(&options.url);
    let mut screen = Screen::open()?;
    let (mut events, mut looks) = (events(), looks(source, options.interval));
    let mut stop = std::pin::pin!(super::stop_signal());
    loop {
        screen.0.draw(|frame| draw::draw(&view, frame.area(), frame.buffer_mut()))?;
        tokio::select! {
            look = looks.recv() => view.looked(look.unwrap_or_else(|| Err("it is no longer asked".to_owned()))),
            event = events.recv() => match event {
                Some(Ok(Event::Key(key))) if key.is_press() && !view.key(key) => return Ok(()),
                Some(Ok(_)) => {} // drawn anew, for example after it was resized
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            _ = &mut stop => return Ok(()),
        }
    }
}

/// What the terminal says. Reading blocks, so that a thread of its own does it, which ends with the process.
fn events() -> mpsc::UnboundedReceiver<io::Result<Event>> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        loop {
            let event = event::read();
            let failed = event.is_err();
            if tell.send(event).is_err() || failed {
                return;
            }
        }
    });
    told
}

/// Looks at couplet again and again.
fn looks(source: Source, interval: Duration) -> mpsc::Receiver<Result<Look, String>> {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if tell.send(source.look().await).await.is_err() {
                return;
            }
        }
    });
    told
}

/// The terminal as a screen, until it is dropped: then, whatever happened, it is as it was.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> io::Result<Self> {
        // What was set before it failed is set back.
        ratatui::try_init().inspect_err(|_| ratatui::restore()).map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
