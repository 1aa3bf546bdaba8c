//! The whole terminal, for commands that show something live.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::failure::{Context, Failure};

/// The terminal in raw mode and on its alternate screen. Dropped, and on a panic too, it is as it was.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    events: Receiver<io::Result<Event>>,
}

/// What a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Wants to leave: `q`, Escape or Ctrl-C.
    Quit,
    /// Pressed a key; the arrows down and up are `j` and `k`.
    Key(char),
    /// Changed the size of the window.
    Resize,
}

impl Screen {
    /// Whether there is a terminal at both ends: to show something on, and to be told to stop by.
    pub fn possible() -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb
    }

    /// Takes the terminal.
    pub fn open() -> Result<Screen, Failure> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore());
        let terminal = terminal.context(|| "cannot use the terminal".to_owned())?;
        let (sender, events) = mpsc::channel();
        // In a thread of its own, which ends with the process: where a terminal goes away, reading its events never returns.
        std::thread::spawn(move || {
            loop {
                let event = event::read();
                let last = event.is_err();
                if sender.send(event).is_err() || last {
                    return;
                }
            }
        });
        Ok(Screen { terminal, events })
    }

    /// Shows a new picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.terminal.draw(picture).map(drop).context(|| "cannot write to the terminal".to_owned())
    }

    /// Waits for a person to do something, at most so long.
    pub fn input(&self, at_most: Duration) -> Result<Option<Input>, Failure> {
        if hung_up() {
            return Ok(Some(Input::Quit));
        }
        match self.events.recv_timeout(at_most) {
            Ok(event) => Ok(meaning(&event.context(|| "cannot read from the terminal".to_owned())?)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Ok(Some(Input::Quit)),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Whether the terminal has gone away.
fn hung_up() -> bool {
    let stdin = io::stdin();
    let mut terminal = [PollFd::new(&stdin, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let asked = rustix::event::poll(&mut terminal, Some(&now));
    asked.is_ok() && terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn meaning(event: &Event) -> Option<Input> {
    match event {
        Event::Resize(..) => Some(Input::Resize),
        Event::Key(KeyEvent {
            code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, ..
        }) => match code {
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => Some(Input::Quit),
            KeyCode::Char('q') | KeyCode::Esc => Some(Input::Quit),
            KeyCode::Char(key) => Some(Input::Key(*key)),
            KeyCode::Down => Some(Input::Key('j')),
            KeyCode::Up => Some(Input::Key('k')),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_leave_is_understood() {
        let key = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Input::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Input::Quit));
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(Input::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Some(Input::Key('c')));
        assert_eq!(meaning(&Event::Resize(80, 24)), Some(Input::Resize));
        assert_eq!(meaning(&Event::FocusLost), None);
    }
}
