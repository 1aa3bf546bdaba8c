//! Counters, gauges and histograms that cost next to nothing to record, and the forms they are told in.
