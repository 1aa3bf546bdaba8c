//! The table of operations on the whole terminal, again and again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};

use super::table::{self, Room};
use super::totals::{By, Sort, Totals};
use super::{How, listen};
use crate::cli::command::ProfileCommand;
use crate::commands::stop::Stop;
use crate::commands::watched;
use crate::daemon::operations::Part;
use crate::daemon::registry::Record;
use crate::failure::Failure;
use crate::output;
use crate::output::screen::{Input, Screen};

/// How soon a key is answered.
const LOOK: Duration = Duration::from_millis(50);

/// What the daemon's listener has to say.
enum News {
    Part(Part),
    Ended(Result<bool, Failure>),
}

struct View {
    at: String,
    by: By,
    sort: Sort,
    /// Since the beginning, rather than in the last interval.
    since_start: bool,
    paused: bool,
    last: Totals,
    all: Totals,
    heard: bool,
}

/// Shows it until the person has seen enough or the mount ends.
pub fn run(daemon: Record, command: &ProfileCommand) -> Result<(), Failure> {
    let mut view = View {
        at: output::path(&daemon.mountpoint),
        by: command.by,
        sort: command.sort,
        since_start: false,
        paused: false,
        last: Totals::default(),
        all: Totals::default(),
        heard: false,
    };
    let interval = command.interval.0;
    let (sender, news) = mpsc::sync_channel(4);
    let listened = daemon.clone();
    // It ends with the process, or when nobody takes its news.
    let stop = Arc::new(Stop::listen()?);
    let asked = Arc::clone(&stop);
    std::thread::spawn(move || {
        let mut part = |part| {
            Ok(match sender.send(News::Part(part)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        };
        let ended = listen(&listened, How { interval, until: None, each: false }, &mut part, &asked);
        let _ = sender.send(News::Ended(ended));
    });

    let mut screen = Screen::open()?;
    screen.draw(|frame| view.draw(frame))?;
    let ended = 'watch: loop {
        let mut changed = match screen.input(LOOK)? {
            Some(Input::Quit) => break Ok(false),
            Some(Input::Key(key)) => view.key(key),
            Some(Input::Resize) => true,
            None => false,
        };
        if stop.asked() {
            break Ok(false);
        }
        while let Ok(news) = news.try_recv() {
            match news {
                News::Part(part) => changed |= view.add(&part),
                News::Ended(ended) => break 'watch ended,
            }
        }
        if changed {
            screen.draw(|frame| view.draw(frame))?;
        }
    };
    drop(screen);
    if ended? { watched::ended(&daemon) } else { Ok(()) }
}

impl View {
    /// Takes in what happened. True: there is something new to show.
    fn add(&mut self, part: &Part) -> bool {
        self.heard = true;
        self.all.add(part);
        if self.paused {
            return false;
        }
        self.last = Totals::default();
        self.last.add(part);
        true
    }

    /// Does what a key stands for. True: there is something new to show.
    fn key(&mut self, key: char) -> bool {
        match key {
            'b' => self.by = self.by.next(),
            's' => self.sort = self.sort.next(),
            't' => self.since_start = !self.since_start,
            'p' | ' ' => self.paused = !self.paused,
            _ => return false,
        }
        true
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)])
                .areas(frame.area());
        let totals = if self.since_start { &self.all } else { &self.last };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let second = match self.heard {
            true => table::summary(totals),
            false => "waiting for the first figures".to_owned(),
        };
        frame.render_widget(Text::from(vec![Line::styled(self.title(), bold), Line::raw(second)]), head);

        let room = Room { width: body.width.into(), rows: usize::from(body.height).saturating_sub(1) };
        let mut lines: Vec<Line<'_>> =
            table::lines(totals, self.by, self.sort, room).into_iter().map(Line::raw).collect();
        if let Some(headings) = lines.first_mut() {
            headings.style = Style::new().add_modifier(Modifier::REVERSED);
        }
        frame.render_widget(Text::from(lines), body);

        let keys = "q quit  b by  s sort  t total  p pause";
        frame.render_widget(Line::styled(keys, Style::new().add_modifier(Modifier::DIM)), foot);
    }

    fn title(&self) -> String {
        let what = match (self.paused, self.since_start) {
            (true, _) => "paused",
            (false, true) => "since the start",
            (false, false) => "now",
        };
        format!("{}  by {}, most {} first, {what}", self.at, self.by, self.sort.name())
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::daemon::operations::{Figures, Row};

    fn view() -> View {
        View {
            at: "/mnt/vol".into(),
            by: "process,operation".parse().unwrap(),
            sort: Sort::Time,
            since_start: false,
            paused: false,
            last: Totals::default(),
            all: Totals::default(),
            heard: false,
        }
    }

    fn shown(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn part(process: &str, millis: u64) -> Part {
        let histogram = headrace_metrics::Histogram::new();
        histogram.record(Duration::from_millis(millis));
        let figures = Figures { duration: histogram.snapshot(), ..Figures::default() };
        let row = Row { pid: 7, process: process.into(), operation: "read".into(), figures };
        Part { seconds: 1.0, dropped: 0, rows: vec![row], entries: Vec::new() }
    }

    #[test]
    fn each_key_changes_what_is_shown() {
        let mut view = view();
        assert!(shown(&view, 60, 10).contains("waiting"));
        view.add(&part("cc1", 5));
        view.add(&part("rustc", 9));
        assert!(shown(&view, 60, 10).contains("rustc") && !shown(&view, 60, 10).contains("cc1"));
        assert!(view.key('t') && shown(&view, 60, 10).contains("cc1"));
        assert!(view.key('p') && shown(&view, 80, 10).contains("paused"));
        assert!(!view.add(&part("third", 1)));
        assert!(view.key('b') && shown(&view, 80, 10).contains("by process,"));
        assert!(view.key('s') && shown(&view, 80, 10).contains("most count first"));
        assert!(!view.key('x'));
    }

    #[test]
    fn any_size_of_window_will_do() {
        let mut view = view();
        view.add(&part("cat", 5));
        for (width, height) in [(1, 1), (5, 3), (20, 2), (60, 24), (300, 100)] {
            shown(&view, width, height);
        }
    }
}
