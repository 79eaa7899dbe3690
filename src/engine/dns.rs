//! Engines that DNS tells of: an engine per address of a name, or per SRV record.
//!
//! In: a [`Question`]. Out: addresses with weights. Deliberately absent: how often to ask, and what becomes of the answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

/// What DNS is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The addresses of a name; all engines listen on one port.
    Addresses {
        /// The name.
        name: String,
        /// The engines' port.
        port: u16,
    },
    /// The SRV records of a name.
    Services(String),
}

/// Who answers.
pub struct Resolver(TokioResolver);

impl Resolver {
    /// Asks one server, or those of the system.
    pub fn new(server: Option<SocketAddr>) -> Result<Self, NetError> {
        let mut builder = match server {
            None => TokioResolver::builder_tokio()?,
            Some(server) => {
                let at_port = |mut connection: ConnectionConfig| {
                    connection.port = server.port();
                    connection
                };
                let connections = vec![at_port(ConnectionConfig::udp()), at_port(ConnectionConfig::tcp())];
                let servers = vec![NameServerConfig::new(server.ip(), true, connections)];
                let config = ResolverConfig::from_parts(None, Vec::new(), servers);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let options = builder.options_mut();
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // Who asks every few seconds wants to know what is true now.
        options.cache_size = 0;
        builder.build().map(Self)
    }

    /// The engines and their weights. That there are none is an answer, too.
    pub async fn engines(&self, question: &Question) -> Result<BTreeMap<SocketAddr, u32>, NetError> {
        let mut engines = BTreeMap::new();
        match question {
            Question::Addresses { name, port } => self.add_addresses(name, *port, 1, &mut engines).await?,
            Question::Services(name) => {
                let Some(answer) = none_is_an_answer(self.0.srv_lookup(name.as_str()).await)? else {
                    return Ok(engines);
                };
                let services = answer.answers().iter().filter_map(|record| match &record.data {
                    RData::SRV(service) => Some(service),
                    _ => None,
                });
                // The others are for when none of these is left; engines are told apart by health here.
                let first = services.clone().map(|service| service.priority).min();
                for service in services.filter(|service| Some(service.priority) == first) {
                    let (target, weight) = (service.target.to_utf8(), u32::from(service.weight.max(1)));
                    self.add_addresses(&target, service.port, weight, &mut engines).await?;
                }
            }
        }
        Ok(engines)
    }

    async fn add_addresses(
        &self,
        name: &str,
        port: u16,
        weight: u32,
        engines: &mut BTreeMap<SocketAddr, u32>,
    ) -> Result<(), NetError> {
        if let Some(answer) = none_is_an_answer(self.0.lookup_ip(name).await)? {
            engines.extend(answer.iter().map(|address| (SocketAddr::new(address, port), weight)));
        }
        Ok(())
    }
}

fn none_is_an_answer<T>(answer: Result<T, NetError>) -> Result<Option<T>, NetError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_no_records_found() || error.is_nx_domain() => Ok(None),
        Err(error) => Err(error),
    }
}
