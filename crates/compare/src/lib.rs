//! Headrace, its peers and the native file system: same server, same data, in turns.
