//! A proxy that behaves like a network: delays, caps, faults, and a schedule of them.
