//! What is on the screen, and how looks and keys change it.

use std::collections::VecDeque;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::figures::{Engine, Figures};
use super::source::Look;

/// Tokens in a second are kept for so many looks: more than the columns of a wide screen.
const HISTORY: usize = 400;

/// The state of the screen.
pub(super) struct View {
    /// Where couplet is.
    pub(super) url: String,
    /// The latest figures.
    pub(super) figures: Option<Figures>,
    /// Tokens of replies in a second, the latest first.
    pub(super) history: VecDeque<u64>,
    /// Why couplet does not answer, and since when.
    pub(super) away: Option<(String, Instant)>,
    /// The screen stands still.
    pub(super) paused: bool,
    /// Engines above the first that is shown.
    pub(super) scroll: usize,
    /// What the engines are sorted by.
    pub(super) order: Order,
    last: Option<Look>,
}

/// What engines are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Their URLs.
    #[default]
    Name,
    /// Most tokens in work first.
    Tokens,
    /// Slowest first token first.
    FirstToken,
    /// Most failures first.
    Errors,
}

impl Order {
    const ALL: [Self; 4] = [Self::Name, Self::Tokens, Self::FirstToken, Self::Errors];

    /// The one so many places further on.
    fn step(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }

    /// How it is told.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Tokens => "tokens",
            Self::FirstToken => "first token",
            Self::Errors => "errors",
        }
    }
}

impl View {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            figures: None,
            history: VecDeque::new(),
            away: None,
            paused: false,
            scroll: 0,
            order: Order::default(),
            last: None,
        }
    }

    /// couplet was looked at. Figures need two looks behind each other.
    pub(super) fn looked(&mut self, look: Result<Look, String>) {
        let look = match look {
            Ok(look) => look,
            Err(reason) => return self.missed(reason),
        };
        let Some(before) = self.last.take() else {
            self.last = Some(look);
            return;
        };
        let seconds = look.at.duration_since(before.at).as_secs_f64();
        let figures = Figures::new(&before.scrape, &look.scrape, seconds, look.time, look.told.as_ref());
        self.last = Some(look);
        let Some(figures) = figures else { return self.missed("these are not couplet's metrics".to_owned()) };
        self.away = None;
        if self.paused {
            return;
        }
        self.remember(figures.tokens_out.round() as u64);
        self.figures = Some(figures);
    }

    fn missed(&mut self, reason: String) {
        let since = self.away.take().map_or_else(Instant::now, |(_, since)| since);
        self.away = Some((reason, since));
        self.last = None;
        if !self.paused {
            self.remember(0);
        }
    }

    fn remember(&mut self, tokens: u64) {
        self.history.truncate(HISTORY);
        self.history.push_front(tokens);
    }

    /// A key was pressed; false where that ends it.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => {
                let most = self.figures.as_ref().map_or(0, |figures| figures.engines.len().saturating_sub(1));
                self.scroll = (self.scroll + 1).min(most);
            }
            KeyCode::Right => self.order = self.order.step(1),
            KeyCode::Left => self.order = self.order.step(Order::ALL.len() - 1),
            _ => {}
        }
        true
    }

    /// The engines as they are sorted, those that are scrolled away left out.
    pub(super) fn engines(&self) -> Vec<&Engine> {
        let mut engines: Vec<&Engine> = self.figures.iter().flat_map(|figures| &figures.engines).collect();
        let most = |value: fn(&Engine) -> f64| move |a: &&Engine, b: &&Engine| value(b).total_cmp(&value(a));
        match self.order {
            Order::Name => {}
            Order::Tokens => engines.sort_by(most(|engine| engine.tokens)),
            Order::FirstToken => engines.sort_by(most(|engine| engine.first_token.unwrap_or(0.0))),
            Order::Errors => engines.sort_by(most(|engine| engine.errors)),
        }
        // Engines may have left meanwhile.
        let above = self.scroll.min(engines.len().saturating_sub(1));
        engines.split_off(above)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::top::exposition::Scrape;

    fn look(seconds: u64, start: Instant, text: &str) -> Result<Look, String> {
        let at = start + Duration::from_secs(seconds);
        Ok(Look { at, time: 0.0, scrape: Scrape::parse(text).unwrap(), told: None })
    }

    fn metrics(tokens: u64) -> String {
        format!("couplet_build_info{{version=\"1\"}} 1\ncouplet_generated_tokens_total{{model=\"m\"}} {tokens}\n")
    }

    #[test]
    fn figures_come_with_the_second_look_and_again_after_couplet_was_away() {
        let (mut view, start) = (View::new("u"), Instant::now());
        view.looked(look(0, start, &metrics(100)));
        assert_eq!((&view.figures, view.history.len()), (&None, 0));
        view.looked(look(2, start, &metrics(300)));
        assert_eq!(view.history, [100]);
        view.looked(Err("Connection refused".to_owned()));
        view.looked(Err("timed out".to_owned()));
        assert_eq!(view.away.as_ref().unwrap().0, "timed out");
        assert_eq!(view.figures.as_ref().unwrap().tokens_out, 100.0, "what was known stays");
        view.looked(look(20, start, &metrics(10)));
        assert!(view.away.is_some(), "one look says nothing yet");
        view.looked(look(21, start, &metrics(15)));
        assert!(view.away.is_none());
        assert_eq!(view.history, [5, 0, 0, 100]);
        view.looked(look(22, start, "up 1\n"));
        assert_eq!(view.away.unwrap().0, "these are not couplet's metrics");
    }

    #[test]
    fn a_paused_screen_stands_still() {
        let (mut view, start) = (View::new("u"), Instant::now());
        let press = |view: &mut View, code| view.key(KeyEvent::new(code, KeyModifiers::NONE));
        view.looked(look(0, start, &metrics(0)));
        assert!(press(&mut view, KeyCode::Char('p')));
        view.looked(look(1, start, &metrics(50)));
        assert_eq!(view.figures, None);
        assert!(press(&mut view, KeyCode::Char('p')));
        view.looked(look(2, start, &metrics(70)));
        assert_eq!(view.history, [20]);
        assert!(!press(&mut view, KeyCode::Char('q')));
        assert!(!view.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn engines_are_sorted_and_scrolled() {
        let engine = |name: &str, tokens, errors| Engine { name: name.to_owned(), tokens, errors, ..Engine::default() };
        let engines = vec![engine("a", 1.0, 5.0), engine("b", 9.0, 0.0), engine("c", 4.0, 7.0)];
        let mut view = View::new("u");
        view.figures = Some(Figures { engines, ..Figures::default() });
        let names = |view: &View| view.engines().iter().map(|engine| engine.name.as_str()).collect::<String>();
        let mut press = |code| {
            view.key(KeyEvent::new(code, KeyModifiers::NONE));
            names(&view)
        };
        assert_eq!(press(KeyCode::Up), "abc");
        assert_eq!(press(KeyCode::Right), "bca");
        assert_eq!(press(KeyCode::Down), "ca");
        assert_eq!(press(KeyCode::Down), "a");
        assert_eq!(press(KeyCode::Down), "a", "the last one stays");
        assert_eq!(press(KeyCode::Left), "c");
        assert_eq!(press(KeyCode::Left), "b", "from the first to the last order");
    }
}
