//! An object store that does what a correct one may do: requests take effect late, answers are late or lost, and a request
//! that was sent again takes effect twice.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use headrace_store::{Body, ErrorKind, ObjectMeta, ObjectStore, StoreError};

use super::world::World;

/// The store as one machine sees it.
pub struct SimStore {
    pub world: World,
    /// Usual time of a request's way, at most.
    pub delay: Duration,
    /// Of a request that is held up somewhere, at most.
    pub held_up: Duration,
}

#[derive(Clone)]
enum Request {
    Get(String),
    Put(String, Bytes),
    PutIfAbsent(String, Bytes),
    Delete(String),
    List(String),
}

#[derive(Clone)]
enum Answer {
    Done,
    Body(Bytes),
    Keys(Vec<ObjectMeta>),
}

fn error(kind: ErrorKind, target: &str) -> StoreError {
    StoreError { kind, operation: "simulated", target: target.into(), detail: "as simulated".into() }
}

/// The moment at which a request takes effect.
fn take_effect(world: &World, request: Request) -> Result<Answer, StoreError> {
    world.with_objects(|objects| match request {
        Request::Get(key) => match objects.get(&key) {
            Some(body) => Ok(Answer::Body(body.clone())),
            None => Err(error(ErrorKind::NotFound, &key)),
        },
        Request::Put(key, body) => {
            objects.insert(key, body);
            Ok(Answer::Done)
        }
        Request::PutIfAbsent(key, body) => match objects.get(&key) {
            // Sent twice because the first answer was lost: real stores' client takes it for its own.
            Some(there) if *there == body => Ok(Answer::Done),
            Some(_) => Err(error(ErrorKind::AlreadyExists, &key)),
            None => {
                objects.insert(key, body);
                Ok(Answer::Done)
            }
        },
        Request::Delete(key) => {
            objects.remove(&key);
            Ok(Answer::Done)
        }
        Request::List(prefix) => {
            let found = objects.iter().filter(|(key, _)| key.starts_with(&prefix));
            let meta = |(key, body): (&String, &Bytes)| ObjectMeta {
                key: key.clone(),
                size: body.len() as u64,
                modified: None,
            };
            Ok(Answer::Keys(found.map(meta).collect()))
        }
    })
}

impl SimStore {
    fn way(&self) -> Duration {
        let most = if self.world.mishap(20) { self.held_up } else { self.delay };
        self.world.some_time(most)
    }

    fn send(&self, request: Request) -> BoxFuture<'static, Result<Answer, StoreError>> {
        let (answer, answered) = oneshot::channel();
        let (there, back) = (self.way(), self.way());
        let lost = self.world.mishap(30);
        // Lost on the way there or on the way back: the sender cannot tell.
        let never_there = lost && self.world.random(2) == 0;
        let again = self.world.mishap(20).then(|| self.way());
        self.world.after(there, move |world| {
            if never_there {
                world.after(back, move |_| drop(answer.send(Err(error(ErrorKind::Transient, "lost")))));
                return;
            }
            if let Some(later) = again {
                let request = request.clone();
                world.after(later, move |world| drop(take_effect(world, request)));
            }
            let result = take_effect(world, request);
            let result = if lost { Err(error(ErrorKind::Transient, "answer lost")) } else { result };
            world.after(back, move |_| drop(answer.send(result)));
        });
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(error(ErrorKind::Transient, "gone"))) })
    }
}

impl ObjectStore for SimStore {
    fn url(&self) -> &str {
        "sim://bucket"
    }

    fn get_range<'a>(&'a self, _: &'a str, _: Range<u64>) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        unreachable!("the log's objects are read whole")
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        let answer = self.send(Request::Get(key.into()));
        Box::pin(async move {
            match answer.await? {
                Answer::Body(body) => Ok(body),
                _ => unreachable!("a get is answered with a body"),
            }
        })
    }

    fn put_body<'a>(&'a self, key: &'a str, body: Body) -> BoxFuture<'a, Result<(), StoreError>> {
        let answer = self.send(Request::Put(key.into(), body.to_bytes()));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn put_if_absent<'a>(&'a self, key: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        let answer = self.send(Request::PutIfAbsent(key.into(), body));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<ObjectMeta, StoreError>> {
        let answer = self.get(key);
        Box::pin(async move {
            let body = answer.await?;
            Ok(ObjectMeta { key: key.into(), size: body.len() as u64, modified: None })
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let answer = self.send(Request::Delete(key.into()));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxStream<'a, Result<ObjectMeta, StoreError>> {
        let answer = self.send(Request::List(prefix.into()));
        let keys = async move {
            match answer.await {
                Ok(Answer::Keys(keys)) => keys.into_iter().map(Ok).collect(),
                Ok(_) => unreachable!("a list is answered with keys"),
                Err(error) => vec![Err(error)],
            }
        };
        Box::pin(stream::once(keys).flat_map(stream::iter))
    }
}
