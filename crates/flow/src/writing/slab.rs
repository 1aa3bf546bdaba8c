//! Places that are used again, under names that are not.

/// The name of a value: its place, and a number that no other value ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    serial: u64,
    place: u32,
}

/// Values by [`Key`]. Allocates only when it holds more than ever before.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Option<(u64, T)>>,
    free: Vec<u32>,
    next: u64,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new(), next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> Key {
        let serial = self.next;
        self.next += 1;
        let entry = Some((serial, value));
        if let Some(place) = self.free.pop()
            && let Some(slot) = self.places.get_mut(place as usize)
        {
            *slot = entry;
            return Key { serial, place };
        }
        // Limits keep this far below 2^32.
        let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(entry);
        Key { serial, place }
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        self.places
            .get(key.place as usize)?
            .as_ref()
            .filter(|entry| entry.0 == key.serial)
            .map(|entry| &entry.1)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.places.get_mut(key.place as usize)?;
        slot.as_mut().filter(|entry| entry.0 == key.serial).map(|entry| &mut entry.1)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let (_, value) = self.places.get_mut(key.place as usize)?.take()?;
        self.free.push(key.place);
        Some(value)
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten().map(|entry| &entry.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_and_an_old_name_finds_nothing() {
        let mut slab = Slab::new();
        let (first, second) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.remove(first), slab.remove(first), slab.len()), (Some('a'), None, 1));
        let third = slab.insert('c');
        assert_eq!((slab.places.len(), slab.len()), (2, 2));
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!((slab.get(second), slab.get(third)), (Some(&'b'), Some(&'c')));
        assert_ne!(first, third);
    }
}
