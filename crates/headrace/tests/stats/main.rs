//! What a person sees of a mount while it works: `headrace stats` and `headrace profile`, on a real terminal and without one.

mod load;
mod profile;
mod screen;
mod stats;
mod terminal;
