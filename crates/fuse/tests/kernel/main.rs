//! The front end against the real kernel: a small file system in memory, mounted through /dev/fuse. Needs root.

mod caching;
mod concurrency;
mod data;
mod interrupts;
mod lifecycle;
mod mapping;
mod memory;
mod names;
mod passthrough;
mod privileges;
mod protocol;
mod support;
