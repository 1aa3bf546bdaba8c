//! A world of machines in virtual time: one seed, one course of events.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::Clock;

type Event = Box<dyn FnOnce(&World) + Send>;
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Shared by everything in one simulation.
#[derive(Clone)]
pub struct World(Arc<Mutex<Inner>>);

struct Inner {
    now: Duration,
    random: u64,
    serial: u64,
    /// By time, then in the order they were made.
    events: BTreeMap<(Duration, u64), Event>,
    objects: BTreeMap<String, Bytes>,
    tasks: BTreeMap<u64, (usize, Task)>,
    machines: Vec<Machine>,
    /// Chances of faults are nought from here on.
    calm: bool,
}

#[derive(Default)]
struct Machine {
    paused: bool,
    /// Tasks that would run if it were not paused.
    waiting: Vec<u64>,
    /// Changes with every crash: what was to wake the dead wakes nobody.
    life: u64,
}

impl World {
    pub fn new(seed: u64, machines: usize) -> World {
        World(Arc::new(Mutex::new(Inner {
            now: Duration::from_secs(1000),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d,
            serial: 0,
            events: BTreeMap::new(),
            objects: BTreeMap::new(),
            tasks: BTreeMap::new(),
            machines: (0..machines).map(|_| Machine::default()).collect(),
            calm: false,
        })))
    }

    pub fn now(&self) -> Duration {
        self.0.lock().now
    }

    /// A number below `bound`: splitmix64 (Steele, Lea, Flood 2014).
    pub fn random(&self, bound: u64) -> u64 {
        let mut inner = self.0.lock();
        inner.random = inner.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = inner.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }

    /// A time up to `most`; small ones are more likely.
    pub fn some_time(&self, most: Duration) -> Duration {
        let unit = self.random(1 << 20) as f64 / (1u64 << 20) as f64;
        most.mul_f64(unit * unit)
    }

    /// Whether a fault of this chance, in a thousand, happens.
    pub fn mishap(&self, chance: u64) -> bool {
        !self.0.lock().calm && self.random(1000) < chance
    }

    /// No faults any more.
    pub fn calm(&self) {
        self.0.lock().calm = true;
    }

    pub fn after(&self, delay: Duration, event: impl FnOnce(&World) + Send + 'static) {
        let mut inner = self.0.lock();
        inner.serial += 1;
        let at = (inner.now + delay, inner.serial);
        inner.events.insert(at, Box::new(event));
    }

    pub fn with_objects<T>(&self, look: impl FnOnce(&mut BTreeMap<String, Bytes>) -> T) -> T {
        look(&mut self.0.lock().objects)
    }

    /// Runs `task` on a machine until it ends or the machine crashes.
    pub fn spawn(&self, machine: usize, task: impl Future<Output = ()> + Send + 'static) {
        let id = {
            let mut inner = self.0.lock();
            inner.serial += 1;
            let id = inner.serial;
            inner.tasks.insert(id, (machine, Box::pin(task)));
            id
        };
        self.after(Duration::ZERO, move |world| world.run(id));
    }

    /// Runs a task until it waits.
    fn run(&self, id: u64) {
        let (machine, life, mut task) = {
            let mut inner = self.0.lock();
            let Some((machine, task)) = inner.tasks.remove(&id) else { return };
            if inner.machines[machine].paused {
                inner.machines[machine].waiting.push(id);
                inner.tasks.insert(id, (machine, task));
                return;
            }
            (machine, inner.machines[machine].life, task)
        };
        let alarm = Alarm { world: self.clone(), task: id, rung: AtomicBool::new(false) };
        let waker = Waker::from(Arc::new(alarm));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            let mut inner = self.0.lock();
            if inner.machines[machine].life == life {
                inner.tasks.insert(id, (machine, task));
                return;
            }
        }
        // Outside of the lock: what is dropped may come back here.
        drop(task);
    }

    /// The machine stops in the middle of what it does, and goes on later as if nothing had been.
    pub fn pause(&self, machine: usize, length: Duration) {
        {
            let mut inner = self.0.lock();
            if inner.machines[machine].paused {
                return;
            }
            inner.machines[machine].paused = true;
        }
        self.after(length, move |world| world.wake_up(machine));
    }

    pub fn is_paused(&self, machine: usize) -> bool {
        self.0.lock().machines[machine].paused
    }

    fn wake_up(&self, machine: usize) {
        let waiting = {
            let mut inner = self.0.lock();
            inner.machines[machine].paused = false;
            std::mem::take(&mut inner.machines[machine].waiting)
        };
        for task in waiting {
            self.run(task);
        }
    }

    /// Everything that runs on the machine is gone; what it had sent is still under way.
    pub fn crash(&self, machine: usize) {
        let dead: Vec<_> = {
            let mut inner = self.0.lock();
            inner.machines[machine].life += 1;
            inner.machines[machine].waiting.clear();
            let ids: Vec<u64> =
                inner.tasks.iter().filter(|(_, (of, _))| *of == machine).map(|(id, _)| *id).collect();
            ids.into_iter().filter_map(|id| inner.tasks.remove(&id)).collect()
        };
        // Outside of the lock: what is dropped may come back here.
        drop(dead);
    }

    /// The end of the world. What it holds holds it in turn.
    pub fn end(&self) {
        let (tasks, events) = {
            let mut inner = self.0.lock();
            (std::mem::take(&mut inner.tasks), std::mem::take(&mut inner.events))
        };
        drop(events);
        drop(tasks);
        self.0.lock().events.clear();
    }

    /// Lets the next thing happen; `false` if nothing will.
    pub fn step(&self) -> bool {
        let event = {
            let mut inner = self.0.lock();
            let Some(((at, _), event)) = inner.events.pop_first() else { return false };
            inner.now = at;
            event
        };
        event(self);
        true
    }
}

/// Puts a woken task into the course of events: nothing runs inside of what woke it.
struct Alarm {
    world: World,
    task: u64,
    rung: AtomicBool,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if !self.rung.swap(true, Ordering::Relaxed) {
            let task = self.task;
            self.world.after(Duration::ZERO, move |world| world.run(task));
        }
    }
}

/// A machine's clock: it began at another time than others and runs at its own rate.
pub struct MachineClock {
    pub world: World,
    /// Seconds of this clock in a true one.
    pub rate: f64,
    pub offset: Duration,
}

impl Clock for MachineClock {
    fn now(&self) -> Duration {
        self.offset + self.world.now().mul_f64(self.rate)
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.world.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (ring, rung) = oneshot::channel();
        // A nanosecond more, for what the conversion rounds off.
        let delay = duration.div_f64(self.rate) + Duration::from_nanos(1);
        self.world.after(delay, move |_| ring.send(()).unwrap_or_default());
        Box::pin(async move {
            let _ = rung.await;
        })
    }
}
