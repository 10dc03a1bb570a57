use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::scope;
use std::time::Duration;

use strobe_serve::nvme_tcp::NQN;
use strobe_serve::{Address, Pace, Protocol, Sockets};
use strobe_types::StopFlag;

use crate::common;
use crate::host::{Entry, Wire, capsule, connect, finished, hello, pdus};

/// `data` is in the capsule. Returns the status and dword 0 of the completion.
fn ask(stream: &mut TcpStream, entry: Entry, data: &[u8]) -> (u16, u32) {
    let mut entry = entry.word(8, data.len() as u32);
    entry.0[39] = 1;
    stream.write_all(&capsule(Wire::default(), &entry, data)).expect("it hears");
    let mut pdu = vec![0; 8];
    stream.read_exact(&mut pdu).expect("an answer");
    pdu.resize(u32::from_le_bytes([pdu[4], pdu[5], pdu[6], pdu[7]]) as usize, 0);
    stream.read_exact(&mut pdu[8..]).expect("the rest of it");
    finished(pdus(Wire::default(), &pdu)).1
}

/// Also returns the controller's identifier.
fn queue(address: SocketAddr, number: u16, controller: u16) -> (TcpStream, u32) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    // A failing test must not wait for ever.
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut first = vec![0, 0, 128, 0, 128, 0, 0, 0];
    first.resize(128, 0);
    stream.write_all(&first).expect("it hears");
    stream.read_exact(&mut first).unwrap_or_else(|error| panic!("queue {number}: {error}"));
    let (status, id) = ask(&mut stream, connect(number, 31), &hello(NQN, controller));
    assert_eq!(status, 0, "queue {number}");
    (stream, id)
}

fn connect_all(address: SocketAddr) -> usize {
    let (mut admin, id) = queue(address, 0, 0xffff);
    let mut enable = Entry::new(0x7f).word(11, 0x14).word(12, 0x0046_0001);
    enable.0[4] = 0;
    assert_eq!(ask(&mut admin, enable, &[]), (0, 0));
    let (status, queues) = ask(&mut admin, Entry::new(0xa).word(10, 7), &[]);
    assert_eq!((status, queues >> 16), (0, queues & 0xffff));
    let all: Vec<_> =
        (1..=(queues & 0xffff) as u16 + 1).map(|number| queue(address, number, id as u16)).collect();
    all.len()
}

#[test]
fn all_queues_that_are_offered_can_be_connected() {
    let any = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
    let sockets = Sockets { addresses: vec![(any, Protocol::NvmeTcp)], ..Sockets::default() };
    let mut server = common::server("", Pace::None, &sockets);
    let addresses = server.addresses().expect("addresses");
    let [(Address::Tcp(address), _)] = addresses[..] else { panic!("{addresses:?}") };
    let queues = scope(|threads| {
        let host = threads.spawn(move || connect_all(address));
        server.serve(&StopFlag::default(), &mut || host.is_finished()).expect("it serves");
        host.join().expect("the host is done")
    });
    assert_eq!(queues, 63, "of 64 connections");
}
