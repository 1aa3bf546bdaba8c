//! The figures on the whole terminal, and how they went.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Sparkline};

use super::figures::Figures;
use super::panels::{self, Panel, bytes};
use crate::output::human;

/// Intervals that are remembered: the widest screen, about.
const HISTORY: usize = 400;
/// From how many columns on there are two of them.
const WIDE: u16 = 116;

/// What is shown.
#[derive(Debug, Default)]
pub struct View {
    /// What is watched.
    pub title: String,
    figures: Option<Figures>,
    reads: VecDeque<u64>,
    writes: VecDeque<u64>,
    operations: VecDeque<u64>,
    /// Lines above the first that is shown.
    above: u16,
    paused: bool,
}

fn remember(history: &mut VecDeque<u64>, value: f64) {
    if history.len() >= HISTORY {
        history.pop_back();
    }
    // Newest first. Converts to the nearest there is.
    history.push_front(value as u64);
}

impl View {
    /// Of this mount.
    pub fn new(title: String) -> View {
        View { title, ..View::default() }
    }

    /// Takes new figures in. True: there is something new to show.
    pub fn add(&mut self, figures: Figures) -> bool {
        remember(&mut self.reads, figures.fuse.read_bytes_per_second);
        remember(&mut self.writes, figures.fuse.written_bytes_per_second);
        remember(&mut self.operations, figures.fuse.all.per_second);
        if self.paused {
            return false;
        }
        self.figures = Some(figures);
        true
    }

    /// Does what a key stands for. True: there is something new to show.
    pub fn key(&mut self, key: char) -> bool {
        match key {
            'j' => self.above = self.above.saturating_add(1),
            'k' => self.above = self.above.saturating_sub(1),
            'p' | ' ' => self.paused = !self.paused,
            _ => return false,
        }
        true
    }

    /// Draws it.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, lines, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(if frame.area().height >= 20 { 4 } else { 0 }),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let paused = if self.paused { "  paused" } else { "" };
        frame.render_widget(Line::styled(format!("{}{paused}", self.title), bold), head);
        let keys = Style::new().add_modifier(Modifier::DIM);
        let Some(figures) = &self.figures else {
            frame.render_widget(Line::raw("waiting for the first figures"), body);
            return frame.render_widget(Line::styled("q quit", keys), foot);
        };
        self.draw_history(frame, lines, figures);

        let panels = panels::all(figures);
        let (left, right): (Vec<_>, Vec<_>) = if frame.area().width >= WIDE {
            // What the kernel asks for beside what the store is asked for.
            panels
                .into_iter()
                .partition(|panel| !["Cache", "Store", "Writers"].iter().any(|n| panel.title.starts_with(n)))
        } else {
            (panels, Vec::new())
        };
        let columns = if right.is_empty() { vec![left] } else { vec![left, right] };
        let areas = Layout::horizontal(columns.iter().map(|_| Constraint::Fill(1))).spacing(2).split(body);
        let texts: Vec<Text<'static>> = columns.into_iter().map(text).collect();
        let longest = texts.iter().map(Text::height).max().unwrap_or(0);
        let most = u16::try_from(longest).unwrap_or(u16::MAX).saturating_sub(body.height);
        self.above = self.above.min(most);
        for (text, area) in texts.into_iter().zip(areas.iter()) {
            frame.render_widget(Paragraph::new(text).scroll((self.above, 0)), *area);
        }
        let more = match most.saturating_sub(self.above) {
            0 => String::new(),
            more => format!("  {} below", human::plural(more.into(), "more line", "more lines")),
        };
        frame.render_widget(Line::styled(format!("q quit  j/k scroll  p pause{more}"), keys), foot);
    }

    fn draw_history(&self, frame: &mut Frame<'_>, area: Rect, figures: &Figures) {
        if area.height == 0 {
            return;
        }
        let fuse = &figures.fuse;
        let all = [
            ("read", &self.reads, format!("{}/s", bytes(fuse.read_bytes_per_second)), Color::Cyan),
            ("write", &self.writes, format!("{}/s", bytes(fuse.written_bytes_per_second)), Color::Magenta),
            ("op/s", &self.operations, human::rate(fuse.all.per_second), Color::Green),
        ];
        let areas = Layout::horizontal(all.each_ref().map(|_| Constraint::Fill(1))).spacing(2).split(area);
        for ((name, history, now, color), area) in all.into_iter().zip(areas.iter()) {
            let [label, bars] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(*area);
            frame.render_widget(Line::styled(format!("{name} {now}"), Style::new().fg(color)), label);
            // The newest at the right.
            let shown = history.iter().take(bars.width.into()).rev();
            let missing = usize::from(bars.width).saturating_sub(history.len());
            let data: Vec<u64> = std::iter::repeat_n(0, missing).chain(shown.copied()).collect();
            frame.render_widget(Sparkline::default().data(data).style(Style::new().fg(color)), bars);
        }
    }
}

fn text(panels: Vec<Panel>) -> Text<'static> {
    let title = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = Vec::new();
    for panel in panels {
        if !lines.is_empty() {
            lines.push(Line::raw(""));
        }
        let style = if panel.alarm { title.fg(Color::Yellow) } else { title };
        lines.push(Line::styled(panel.title, style));
        lines.extend(panel.lines.into_iter().map(|line| Line::raw(format!("  {line}"))));
    }
    Text::from(lines)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::figures::tests::snapshot;
    use super::*;

    fn shown(view: &mut View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn figures(reads: u64) -> Figures {
        Figures::between(&snapshot(1.0, 0), &snapshot(2.0, reads))
    }

    #[test]
    fn wide_it_shows_all_layers_at_once_and_narrow_the_rest_below() {
        let mut view = View::new("/mnt/vol".into());
        assert!(shown(&mut view, 60, 24).contains("waiting"));
        view.add(figures(40_000));
        let wide = shown(&mut view, 140, 40);
        for layer in ["FUSE", "Metadata", "Cache", "Store", "Memory", "Writers"] {
            assert!(wide.contains(layer), "{layer}: {wide}");
        }
        assert!(!wide.contains("more lines"), "{wide}");
        let narrow = shown(&mut view, 60, 24);
        assert!(
            narrow.contains("FUSE") && !narrow.contains("Writers") && narrow.contains("more lines"),
            "{narrow}"
        );
        (0..100).for_each(|_| assert!(view.key('j')));
        let below = shown(&mut view, 60, 24);
        assert!(
            !below.contains("FUSE  read") && below.contains("Writers") && !below.contains("more lines"),
            "{below}"
        );
        assert!(view.key('k') && shown(&mut view, 60, 24).contains("1 more line below"));
    }

    #[test]
    fn any_size_of_window_will_do() {
        let mut view = View::new("/mnt/vol".into());
        view.add(figures(10));
        for (width, height) in [(1, 1), (3, 20), (60, 2), (116, 24), (400, 200)] {
            shown(&mut view, width, height);
        }
    }

    #[test]
    fn what_went_before_is_bounded() {
        let mut view = View::new("/mnt/vol".into());
        (0..HISTORY as u64 + 10).for_each(|n| assert!(view.add(figures(n))));
        assert_eq!(view.reads.len(), HISTORY);
        assert_eq!(view.operations.front(), Some(&(HISTORY as u64 + 9)));
        view.key('p');
        assert!(!view.add(figures(1)));
    }
}
