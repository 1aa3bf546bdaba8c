//! What a mount counts and times, for whoever asks: over the control socket, and as Prometheus wants it.

mod answer;
mod gather;
mod place;
mod process;
mod server;

pub use gather::gather;
pub use place::MetricsPlace;
pub use server::{Places, Server};
