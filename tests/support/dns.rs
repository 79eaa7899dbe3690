//! A DNS server that answers what it is told to: A and SRV, over UDP.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const A: u16 = 1;
const SRV: u16 = 33;

/// What is known of a name.
#[derive(Clone)]
pub enum Records {
    /// Its addresses.
    Addresses(Vec<Ipv4Addr>),
    /// Its services: weight, port, target.
    Services(Vec<(u16, u16, String)>),
    /// The server has a problem.
    Broken,
}

/// A running server. Dropping it ends it.
pub struct Dns {
    /// Where it answers.
    pub address: SocketAddr,
    names: Arc<Mutex<HashMap<String, Records>>>,
    task: JoinHandle<()>,
}

impl Dns {
    /// Starts one that knows nothing.
    pub async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (address, names) = (socket.local_addr().unwrap(), Arc::new(Mutex::new(HashMap::new())));
        let known = Arc::clone(&names);
        let task = tokio::spawn(async move {
            let mut question = [0; 1500];
            loop {
                let (length, from) = socket.recv_from(&mut question).await.unwrap();
                let answer = answer(&question[..length], &known.lock().unwrap());
                socket.send_to(&answer, from).await.unwrap();
            }
        });
        Self { address, names, task }
    }

    /// From now on the name has these records.
    pub fn set(&self, name: &str, records: Records) {
        self.names.lock().unwrap().insert(name.to_owned(), records);
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A question of one name → a response with all of its records, or none.
fn answer(question: &[u8], names: &HashMap<String, Records>) -> Vec<u8> {
    let (mut name, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let length = usize::from(question[at]);
        name.push(String::from_utf8(question[at + 1..=at + length].to_vec()).unwrap().to_lowercase());
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let end = at + 5;
    let name = name.join(".");
    let (code, records): (u8, Vec<Vec<u8>>) = match (names.get(&name), kind) {
        (Some(Records::Broken), _) => (2, Vec::new()),
        (Some(Records::Addresses(addresses)), A) => (0, addresses.iter().map(|one| one.octets().to_vec()).collect()),
        (Some(Records::Services(services)), SRV) => (0, services.iter().map(service).collect()),
        (Some(_), _) => (0, Vec::new()),
        (None, _) => (3, Vec::new()),
    };
    let count = u16::try_from(records.len()).unwrap().to_be_bytes();
    // The question's id; a response, authoritative; recursion was wanted and is there.
    let mut out = vec![question[0], question[1], 0x85, 0x80 | code, 0, 1, count[0], count[1], 0, 0, 0, 0];
    out.extend_from_slice(&question[12..end]);
    for record in records {
        // A pointer to the question's name, the kind, class IN, a second to live.
        out.extend_from_slice(&[0xc0, 12]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0, 1, 0, 0, 0, 1]);
        out.extend_from_slice(&u16::try_from(record.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&record);
    }
    out
}

fn service((weight, port, target): &(u16, u16, String)) -> Vec<u8> {
    let mut out = [[0, 0], weight.to_be_bytes(), port.to_be_bytes()].concat();
    for label in target.split('.') {
        out.push(u8::try_from(label.len()).unwrap());
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}
