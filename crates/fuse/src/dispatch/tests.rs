//! Requests of any bytes: each gets exactly one well-formed answer, and none brings the worker down.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use proptest::prelude::*;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::memory::MemFs;
use crate::abi::{InHeader, InitFlags, Opcode, OutHeader};
use crate::session::{BufferPool, Received, Shared, Transport, View, Worker};

/// Takes down what is sent.
#[derive(Default)]
struct Recorder {
    messages: Mutex<Vec<Vec<u8>>>,
}

impl Transport for Recorder {
    fn receive(&self, _space: &mut [u8]) -> io::Result<Received> {
        Ok(Received::Ended)
    }

    fn send(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        let pieces: Vec<&[u8]> = message.iter().map(|piece| &**piece).collect();
        self.messages.lock().push(pieces.concat());
        Ok(())
    }
}

fn worker(recorder: &Arc<Recorder>, pool: &Arc<BufferPool>, agreed: InitFlags) -> Worker {
    let transport: Arc<dyn Transport> = Arc::clone(recorder) as Arc<dyn Transport>;
    let runtime = tokio::runtime::Handle::current();
    let view = View::new(true, Duration::ZERO);
    let shared = Shared::new(Arc::new(MemFs::new(true)), view, agreed, runtime, &[Arc::clone(&transport)]);
    Worker::new(0, transport, shared, Arc::clone(pool))
}

/// Bytes that now and then look like names and small numbers.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![5 => Just(0_u8), 3 => 1..8_u8, 3 => b'a'..=b'c', 1 => any::<u8>()];
    proptest::collection::vec(byte, 0..160)
}

fn request() -> impl Strategy<Value = (u32, u64, u16, i32, Vec<u8>)> {
    let opcode = prop_oneof![
        30 => proptest::sample::select(Opcode::ALL).prop_map(|opcode| opcode as u32),
        1 => any::<u32>(),
    ];
    let extensions = prop_oneof![9 => Just(0_u16), 1 => any::<u16>()];
    let wrong_by = prop_oneof![9 => Just(0), 1 => -50..50_i32];
    (opcode, 0..6_u64, extensions, wrong_by, body())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_answer_each(
        requests in proptest::collection::vec(request(), 1..60),
        setxattr_ext: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let recorder = Arc::new(Recorder::default());
        let pool = BufferPool::new(1 << 20);
        let mut agreed = InitFlags::NO_OPENDIR_SUPPORT;
        agreed.set(InitFlags::SETXATTR_EXT, setxattr_ext);
        let worker = worker(&recorder, &pool, agreed);
        let mut buffer = pool.request_buffer();
        for (index, (opcode, nodeid, total_extlen, wrong_by, body)) in requests.into_iter().enumerate() {
            let unique = (index as u64 + 1) * 2;
            let len = size_of::<InHeader>() + body.len();
            let said = (len as u32).saturating_add_signed(wrong_by);
            let header = InHeader {
                len: said, opcode, unique, nodeid, uid: 1, gid: 1, pid: 1, total_extlen, padding: 0,
            };
            let bytes = [header.as_bytes(), &body].concat();
            buffer.space()[..len].copy_from_slice(&bytes);
            super::serve(&worker, &mut buffer, len);

            let messages = std::mem::take(&mut *recorder.messages.lock());
            let mut answers = 0;
            for message in &messages {
                let (out, rest) = OutHeader::read_from_prefix(message).unwrap();
                prop_assert_eq!(out.len as usize, message.len());
                if out.unique == unique {
                    answers += 1;
                    prop_assert!((-511..=0).contains(&out.error));
                    prop_assert!(out.error == 0 || rest.is_empty());
                } else {
                    // A notification, or the answer to an INTERRUPT.
                    prop_assert!(out.unique == 0 || out.unique & 1 == 1);
                }
            }
            let silent = Opcode::from_raw(opcode).is_some_and(Opcode::silent);
            prop_assert_eq!(answers, usize::from(!silent), "{:?}", Opcode::from_raw(opcode));
        }
        prop_assert!(worker.shared.in_flight.wait_idle(Instant::now()));
    }

    #[test]
    fn shorter_than_a_header(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let recorder = Arc::new(Recorder::default());
        let pool = BufferPool::new(1 << 20);
        let worker = worker(&recorder, &pool, InitFlags::empty());
        let mut buffer = pool.request_buffer();
        buffer.space()[..bytes.len()].copy_from_slice(&bytes);
        super::serve(&worker, &mut buffer, bytes.len());
        prop_assert!(recorder.messages.lock().is_empty());
    }
}
