//! The addresses that couplet listens on, and what is answered at each.

use tokio::net::TcpListener;

use crate::endpoints::route::Route;

/// Where requests come in.
#[derive(Debug)]
pub struct Doors {
    /// For clients.
    pub clients: TcpListener,
    /// For those who run couplet; without it they come in by the other one.
    pub admin: Option<TcpListener>,
}

/// Which of them a request came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// The only one: everything is here.
    Only,
    /// The clients' one, where there are two.
    Clients,
    /// The other one, an address that only those who run couplet reach: it wants no key.
    Admin,
}

impl Door {
    /// Whether a route is there. The engines' addresses are told only where a key is needed, or where no client comes.
    pub(super) fn has(self, route: Route, keys: &[String]) -> bool {
        match self {
            Self::Only => route != Route::Engines || !keys.is_empty(),
            Self::Clients => !matches!(route, Route::Metrics | Route::Engines),
            Self::Admin => matches!(route, Route::Metrics | Route::Engines | Route::Health | Route::Ready),
        }
    }
}
