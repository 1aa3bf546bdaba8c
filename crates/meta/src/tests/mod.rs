//! What the namespace does, over the engine that volumes use and over one that repeats every transaction. Each test ends
//! with a check that finds nothing.

mod attributes;
mod corruption;
mod data;
mod describe;
mod engine;
mod fixture;
mod listing;
mod model;
mod names;
mod ranges;
mod rename;
mod repair;
mod segments;
mod steps;
mod totals;
mod trash;
mod xattrs;
