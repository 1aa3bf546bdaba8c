//! The real file system behind the front end.
