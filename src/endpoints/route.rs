//! The routes, their methods and their names in metrics.

use crate::metrics::Metrics;

/// What paths that are none of the routes are called in metrics.
pub const UNKNOWN: &str = "other";

/// The routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
    /// `/v1/chat/completions/render`
    ChatRender,
    /// `/v1/completions/render`
    CompletionsRender,
    /// `/v1/chat/completions/derender`
    ChatDerender,
    /// `/v1/completions/derender`
    CompletionsDerender,
    /// `/tokenize`
    Tokenize,
    /// `/detokenize`
    Detokenize,
    /// `/v1/models`
    Models,
    /// `/health`
    Health,
    /// `/ready`
    Ready,
    /// `/ping`
    Ping,
    /// `/version`
    Version,
    /// `/load`
    Load,
    /// `/metrics`
    Metrics,
    /// `/debug/engines`
    Engines,
}

impl Route {
    const ALL: [Self; 16] = [
        Self::Chat,
        Self::Completions,
        Self::ChatRender,
        Self::CompletionsRender,
        Self::ChatDerender,
        Self::CompletionsDerender,
        Self::Tokenize,
        Self::Detokenize,
        Self::Models,
        Self::Health,
        Self::Ready,
        Self::Ping,
        Self::Version,
        Self::Load,
        Self::Metrics,
        Self::Engines,
    ];

    /// The route of a path.
    pub fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.name() == path)
    }

    /// The methods it has, as `Allow` lists them.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Models | Self::Health | Self::Ready | Self::Version | Self::Load | Self::Metrics | Self::Engines => {
                "GET"
            }
            Self::Ping => "GET, POST",
            _ => "POST",
        }
    }

    /// Whether it only tells about the server: such routes are answered until the end.
    pub fn only_tells(self) -> bool {
        self.allowed() != "POST"
    }

    /// The statuses that are counted from the start.
    fn statuses(self) -> &'static [u16] {
        match self {
            Self::Chat | Self::Completions => &[200, 400, 404, 429, 499, 500, 502, 503, 504],
            Self::Ready => &[200, 503],
            _ if self.only_tells() => &[200],
            _ => &[200, 400, 404, 499, 500, 503],
        }
    }

    /// What is counted of the routes begins.
    pub fn announce(metrics: &Metrics) {
        Self::ALL.iter().for_each(|route| metrics.expect_route(route.name(), route.statuses(), !route.only_tells()));
        metrics.expect_route(UNKNOWN, &[404], false);
    }

    /// Its path, and its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::ChatRender => "/v1/chat/completions/render",
            Self::CompletionsRender => "/v1/completions/render",
            Self::ChatDerender => "/v1/chat/completions/derender",
            Self::CompletionsDerender => "/v1/completions/derender",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
            Self::Models => "/v1/models",
            Self::Health => "/health",
            Self::Ready => "/ready",
            Self::Ping => "/ping",
            Self::Version => "/version",
            Self::Load => "/load",
            Self::Metrics => "/metrics",
            Self::Engines => "/debug/engines",
        }
    }
}
