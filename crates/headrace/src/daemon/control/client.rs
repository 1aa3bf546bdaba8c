//! The command's end of the control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::protocol::{Line, MAX_ANSWER, Request, SILENCE_LIMIT, Step};
use crate::daemon::registry::Record;
use crate::failure::{Context, Exit, Failure};

/// A daemon, connected.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    about: String,
}

impl Client {
    /// Connects to the daemon of `record`.
    pub fn connect(record: &Record) -> Result<Client, Failure> {
        let about =
            format!("the daemon of {} (process {})", crate::output::path(&record.mountpoint), record.pid);
        let stream = UnixStream::connect(&record.socket).map_err(|e| {
            let failure = Failure::new(format!("cannot reach {about}")).because(&e);
            match e.kind() {
                io::ErrorKind::PermissionDenied => failure
                    .advise("Only the user who mounted the volume, and root, can control it.")
                    .exit(Exit::Denied),
                _ => failure.exit(Exit::NotFound),
            }
        })?;
        let limits = stream.set_read_timeout(Some(SILENCE_LIMIT));
        limits
            .and_then(|()| stream.set_write_timeout(Some(Duration::from_secs(10))))
            .context(|| about.clone())?;
        Ok(Client { stream: BufReader::new(stream), about })
    }

    /// Sends `request` and waits for its result; `step` sees progress.
    pub fn call<T: DeserializeOwned>(
        mut self,
        request: &Request,
        step: &mut dyn FnMut(Step),
    ) -> Result<T, Failure> {
        self.send(request)?;
        loop {
            match self.line()? {
                Line::Progress(progress) => step(progress),
                Line::Part(_) => {}
                Line::Failed(problem) => return Err(problem.into()),
                Line::Done(value) => return self.understand(value),
            }
        }
    }

    /// Sends `request` and hands the parts of its result to `part` until that has enough or `stop` says so, which is asked
    /// several times a second. The end of the result; `None` if it was not waited for.
    pub fn stream<P: DeserializeOwned, T: DeserializeOwned>(
        mut self,
        request: &Request,
        part: &mut dyn FnMut(P) -> Result<ControlFlow<()>, Failure>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<T>, Failure> {
        self.send(request)?;
        loop {
            match self.line()? {
                Line::Progress(_) => {}
                Line::Part(value) => {
                    let value = self.understand(value)?;
                    if part(value)?.is_break() {
                        return Ok(None);
                    }
                }
                Line::Failed(problem) => return Err(problem.into()),
                Line::Done(value) => return self.understand(value).map(Some),
            }
            if stop() {
                return Ok(None);
            }
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), Failure> {
        let about = &self.about;
        let lost = || format!("lost {about}");
        let mut text = serde_json::to_vec(request).context(lost)?;
        text.push(b'\n');
        self.stream.get_mut().write_all(&text).context(lost)
    }

    fn understand<T: DeserializeOwned>(&self, value: Value) -> Result<T, Failure> {
        serde_json::from_value(value)
            .context(|| format!("{} answers what this version does not understand", self.about))
    }

    fn line(&mut self) -> Result<Line, Failure> {
        let about = &self.about;
        let mut line = Vec::new();
        let read = (&mut self.stream).take(MAX_ANSWER).read_until(b'\n', &mut line);
        match read {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(Failure::new(format!("{about} does not answer")).advise("Its log may say why."))
            }
            Err(e) => Err(Failure::new(format!("lost {about}")).because(&e)),
            Ok(_) if !line.ends_with(b"\n") => {
                Err(Failure::new(format!("{about} ended before it answered")).advise("Its log may say why."))
            }
            Ok(_) => serde_json::from_slice(&line)
                .context(|| format!("{about} answers what this version does not understand")),
        }
    }
}
