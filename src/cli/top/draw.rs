//! Draws the screen. Pure: a view in, cells out.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Widget};

use super::figures::{Engine, Figures, State};
use super::told::Breaker;
use super::view::View;

/// Lines of the panels in the middle.
const PANELS: u16 = 8;
/// Columns of the times and of the figures of this moment; the answers get what is left, 16 of 80.
const TIMES: u16 = 38;
const NOW: u16 = 26;
/// Lines of the curve.
const CURVE: u16 = 6;
/// What there is beside the engines: header, panels, curve, the engines' frame and heading, keys.
pub(super) const REST: u16 = 1 + PANELS + CURVE + 3 + 1;
/// Columns of a screen on which all of the table is shown.
const WIDE: u16 = 100;
/// What is not known.
const UNKNOWN: &str = "–";

/// Draws a view.
pub(super) fn draw(view: &View, area: Rect, cells: &mut Buffer) {
    let rows = [1, PANELS, CURVE].map(Constraint::Length).into_iter();
    let [header, panels, curve, engines, keys] =
        Layout::vertical(rows.chain([Constraint::Min(3), Constraint::Length(1)])).areas(area);
    draw_header(view, header, cells);
    draw_keys(view, keys, cells);
    let Some(figures) = &view.figures else {
        let [_, middle, _] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1), Constraint::Fill(1)])
            .areas(Rect { height: panels.height + curve.height + engines.height, ..panels });
        let said = if view.away.is_some() { "nothing is known yet" } else { "looking twice …" };
        return Paragraph::new(said).centered().render(middle, cells);
    };
    let widths = [Constraint::Fill(1), Constraint::Length(TIMES), Constraint::Length(NOW)];
    let [answers, times, now] = Layout::horizontal(widths).areas(panels);
    panel("Answers/s", answer_lines(figures, answers.width)).render(answers, cells);
    panel("Times", time_lines(figures)).render(times, cells);
    panel("Now", now_lines(figures)).render(now, cells);
    draw_curve(view, figures, curve, cells);
    draw_engines(view, engines, cells);
}

fn draw_header(view: &View, area: Rect, cells: &mut Buffer) {
    let mut spans = vec![Span::from(" couplet ").bold()];
    if let Some(figures) = &view.figures {
        spans.push(format!("{} ", figures.version).bold());
    }
    spans.push(format!("at {}", view.url).into());
    if let Some((_, since)) = &view.away {
        spans.push(format!("   away for {} s", since.elapsed().as_secs()).fg(Color::Red).bold());
    } else if let Some(figures) = &view.figures {
        if let Some(uptime) = figures.uptime {
            spans.push(format!("   up {}", clock(uptime)).into());
        }
        spans.push(format!("   serves {}", figures.models.join(", ")).into());
    }
    if view.paused {
        spans.push("   paused".fg(Color::Yellow).bold());
    }
    Line::from(spans).render(area, cells);
}

/// The keys, or what is wrong.
fn draw_keys(view: &View, area: Rect, cells: &mut Buffer) {
    if let Some((reason, _)) = &view.away {
        return Line::from(format!(" {reason}; it is asked again")).fg(Color::Red).render(area, cells);
    }
    let order = view.order.name();
    Line::from(format!(" q quits   p pauses   ↑ ↓ scroll   ← → sort engines, now by {order}"))
        .dim()
        .render(area, cells);
}

fn panel<'a>(title: &'a str, lines: Vec<Line<'a>>) -> Paragraph<'a> {
    Paragraph::new(lines).block(Block::bordered().title(format!(" {title} ")))
}

/// A name at the left of a panel of so many columns, its figure at the right.
fn line<'a>(name: &str, figure: &str, columns: u16, style: Style) -> Line<'a> {
    // Frames and a space at both sides.
    let gap = usize::from(columns).saturating_sub(4 + name.chars().count());
    Line::styled(format!(" {name}{figure:>gap$}"), style)
}

fn answer_lines(figures: &Figures, columns: u16) -> Vec<Line<'_>> {
    let style = |code: &str| match code.chars().next() {
        Some('5') => Style::new().fg(Color::Red),
        Some('4') => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    let mut lines: Vec<Line> =
        figures.codes.iter().map(|(code, rate)| line(code, &number(*rate), columns, style(code))).collect();
    if lines.is_empty() {
        lines.push(line("none", "", columns, Style::new().dim()));
    }
    // There is room for one line more.
    lines.truncate(usize::from(PANELS) - 3);
    lines.push(line("cut short", &number(figures.aborts), columns, warns(figures.aborts)));
    lines
}

fn time_lines(figures: &Figures) -> Vec<Line<'_>> {
    let row = |name: &str, [a, b, c]: [String; 3]| format!(" {name:<14}{a:>7}{b:>7}{c:>7}");
    let heading = row("", ["p50", "p90", "p99"].map(str::to_owned));
    let mut lines = vec![Line::from(heading).dim()];
    for (what, times) in &figures.times {
        lines.push(row(what, times.map_or([UNKNOWN; 3].map(str::to_owned), |times| times.map(time))).into());
    }
    lines
}

fn now_lines(figures: &Figures) -> Vec<Line<'_>> {
    let hits = figures.prefix_hits.map_or(UNKNOWN.to_owned(), |part| format!("{:.0} %", 100.0 * part));
    let plain = Style::new();
    [
        ("requests in flight", number(figures.in_flight), plain),
        ("at engines", number(figures.running), plain),
        ("queued", number(figures.queued), warns(figures.queued)),
        ("not let in/s", number(figures.refused), warns(figures.refused)),
        ("retries/s", number(figures.retries), warns(figures.retries)),
        ("known beginnings", hits, plain),
    ]
    .map(|(name, figure, style)| line(name, &figure, NOW, style))
    .into()
}

fn warns(figure: f64) -> Style {
    if figure > 0.0 { Style::new().fg(Color::Yellow) } else { Style::new() }
}

fn draw_curve(view: &View, figures: &Figures, area: Rect, cells: &mut Buffer) {
    let title = format!(" Tokens/s: {} out, {} in ", number(figures.tokens_out), number(figures.tokens_in));
    let block = Block::bordered().title(title);
    let width = usize::from(block.inner(area).width);
    let mut shown: Vec<u64> = view.history.iter().copied().take(width).collect();
    shown.resize(width, 0);
    shown.reverse();
    Sparkline::default().data(&shown).block(block).fg(Color::Cyan).render(area, cells);
}

/// Columns of the engines' table. The last two are left out where the screen is narrow.
const COLUMNS: [(&str, Constraint); 10] = [
    ("engine", Constraint::Fill(2)),
    ("model", Constraint::Fill(1)),
    ("state", Constraint::Length(5)),
    ("breaker", Constraint::Length(11)),
    ("reqs", Constraint::Length(4)),
    ("tokens", Constraint::Length(6)),
    ("first", Constraint::Length(7)),
    ("errors", Constraint::Length(6)),
    ("resumes", Constraint::Length(7)),
    ("prefix", Constraint::Length(6)),
];

fn draw_engines(view: &View, area: Rect, cells: &mut Buffer) {
    let shown = if area.width < WIDE { COLUMNS.len() - 2 } else { COLUMNS.len() };
    let heading = COLUMNS[..shown].iter().enumerate().map(|(at, (name, _))| aligned(at, (*name).to_owned()));
    let engines = view.engines();
    let title = match view.scroll {
        0 => " Engines ".to_owned(),
        above => format!(" Engines, {above} more above "),
    };
    Table::new(engines.into_iter().map(|engine| row(engine, shown)), COLUMNS[..shown].iter().map(|(_, width)| *width))
        .header(Row::new(heading).style(Style::new().dim()))
        .column_spacing(1)
        .block(Block::bordered().title(title))
        .render(area, cells);
}

/// Figures stand at the right.
fn aligned<'a>(column: usize, text: String) -> Cell<'a> {
    let line = Line::from(text);
    Cell::from(if column < 4 { line } else { line.right_aligned() })
}

/// The first so many columns of an engine.
fn row(engine: &Engine, shown: usize) -> Row<'_> {
    let (state, color) = match engine.state {
        State::Up => ("up", Color::Green),
        State::LeftAlone => ("out", Color::Yellow),
        State::Down => ("down", Color::Red),
    };
    let or_unknown = |figure: Option<String>| figure.unwrap_or_else(|| UNKNOWN.to_owned());
    let texts = [
        engine.name.trim_start_matches("http://").to_owned(),
        or_unknown(engine.model.clone()),
        state.to_owned(),
        or_unknown(engine.breaker.as_ref().map(|breaker| self::breaker(breaker, engine.reason.as_deref()))),
        or_unknown(engine.requests.map(|requests| requests.to_string())),
        number(engine.tokens),
        or_unknown(engine.first_token.map(time)),
        number(engine.errors),
        number(engine.resumes),
        or_unknown(engine.prefix.map(number)),
    ];
    let mut cells: Vec<Cell> = texts.into_iter().enumerate().map(|(at, text)| aligned(at, text)).collect();
    cells[2] = Cell::from(state).style(Style::new().fg(color));
    if engine.fails {
        cells[7] = aligned(7, number(engine.errors)).style(Style::new().fg(Color::Red));
    }
    cells.truncate(shown);
    Row::new(cells)
}

fn breaker(breaker: &Breaker, reason: Option<&str>) -> String {
    match (breaker.left_alone_for, breaker.busy_for) {
        _ if breaker.on_trial => "on trial".to_owned(),
        (Some(seconds), _) => format!("open {}", time(seconds)),
        (_, Some(seconds)) => format!("busy {}", time(seconds)),
        _ if breaker.failures_in_a_row > 0 => format!("{} failed", breaker.failures_in_a_row),
        // Refused for what it is, or down.
        _ if reason.is_some() => UNKNOWN.to_owned(),
        _ => "closed".to_owned(),
    }
}

/// A figure in at most six characters.
fn number(figure: f64) -> String {
    let figure = figure + 0.0; // the sum of nothing is -0
    match figure {
        _ if figure >= 999_950_000.0 => format!("{:.1}G", figure / 1e9),
        _ if figure >= 999_950.0 => format!("{:.1}M", figure / 1e6),
        _ if figure >= 9_999.5 => format!("{:.1}k", figure / 1e3),
        _ if figure.fract() == 0.0 || figure >= 99.95 => format!("{figure:.0}"),
        _ => format!("{figure:.1}"),
    }
}

/// A time, from microseconds to minutes.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 99.95 => format!("{seconds:.0} s"),
        _ if seconds >= 9.995 => format!("{seconds:.1} s"),
        _ if seconds >= 0.9995 => format!("{seconds:.2} s"),
        _ if seconds >= 0.00995 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.1} ms", seconds * 1e3),
    }
}

/// Hours, minutes, seconds, and days where there are some.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let [days, hours, minutes, seconds] = [seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
    let clock = format!("{hours}:{minutes:02}:{seconds:02}");
    if days > 0 { format!("{days} d {clock}") } else { clock }
}

/// A view as plain text, `width` columns wide and as long as its engines want it.
pub(super) fn text(view: &View, width: u16) -> String {
    let engines = u16::try_from(view.engines().len()).unwrap_or(u16::MAX).max(1);
    // Without the keys, which nobody can press.
    let area = Rect::new(0, 0, width, REST.saturating_add(engines));
    let mut cells = Buffer::empty(area);
    draw(view, area, &mut cells);
    let line = |y| (0..width).map(|x| cells[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..area.height - 1).map(line).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn figures_are_short() {
        let numbers = [-0.0, 0.25, 7.0, 99.9, 123.4, 9999.0, 10_000.0, 999_949.0, 999_950.0, 2e9];
        let told = ["0", "0.2", "7", "99.9", "123", "9999", "10.0k", "999.9k", "1.0M", "2.0G"];
        assert_eq!(numbers.map(number), told.map(str::to_owned));
        let times = [0.0004, 0.0094, 0.021, 0.9994, 1.5, 120.0];
        assert_eq!(times.map(time), ["0.4 ms", "9.4 ms", "21 ms", "999 ms", "1.50 s", "120 s"].map(str::to_owned));
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
        assert_eq!(clock(Duration::from_secs(90_061)), "1 d 1:01:01");
    }

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(view, frame.area(), frame.buffer_mut())).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_couplet_that_is_away_is_told_above_what_was_known() {
        let mut view = View::new("http://c");
        view.looked(Err("Connection refused".to_owned()));
        let screen = drawn(&view, 80, 24);
        assert!(screen.contains("couplet at http://c   away for 0 s"), "{screen}");
        assert!(screen.contains("Connection refused; it is asked again"), "{screen}");
        assert!(screen.contains("nothing is known yet"), "{screen}");
        let engines = vec![Engine { name: "http://engine-1".to_owned(), ..Engine::default() }];
        view.figures = Some(Figures { version: "9.9".to_owned(), engines, ..Figures::default() });
        let screen = drawn(&view, 100, 30);
        assert!(screen.contains("couplet 9.9 at http://c   away for"), "{screen}");
        assert!(screen.contains("engine-1") && screen.contains("down"), "{screen}");
    }

    #[test]
    fn a_terminal_of_80_columns_shows_all_that_is_asked_first() {
        let engines = vec![Engine { name: "http://10.0.0.1:8000".to_owned(), errors: 12345.0, ..Engine::default() }];
        let times = vec![("between tokens", Some([0.0012, 0.123, 12.34]))];
        let codes = vec![("200".to_owned(), 12.3)];
        let mut view = View::new("http://c");
        view.figures = Some(Figures { engines, times, codes, queued: 7.0, ..Figures::default() });
        let screen = drawn(&view, 80, 24);
        for line in [
            "│ 200     12.3 │",
            "│ between tokens 1.2 ms 123 ms 12.3 s│",
            "│ queued               7 │",
            "│10.0.0.1:8000 ",
            "12.3k│",
        ] {
            assert!(screen.contains(line), "no {line} in\n{screen}");
        }
    }

    #[test]
    fn a_screen_of_any_size_can_be_drawn() {
        let mut view = View::new("http://c");
        let engines = vec![Engine::default(); 50];
        view.history = (0..1000).collect();
        view.figures = Some(Figures { engines, ..Figures::default() });
        for (width, height) in [(1, 1), (20, 5), (100, 30), (300, 100)] {
            drawn(&view, width, height);
        }
        assert_eq!(text(&view, 100).lines().count(), usize::from(REST) + 50 - 1);
    }
}
