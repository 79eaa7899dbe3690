//! The routes, their methods and their names in metrics.

/// The routes. One place lists them: path, methods, and what each method does.
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
    /// `/ping`
    Ping,
    /// `/version`
    Version,
    /// `/load`
    Load,
    /// `/metrics`
    Metrics,
}

impl Route {
    /// The route of a path.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/completions" => Self::Completions,
            "/v1/chat/completions/render" => Self::ChatRender,
            "/v1/completions/render" => Self::CompletionsRender,
            "/v1/chat/completions/derender" => Self::ChatDerender,
            "/v1/completions/derender" => Self::CompletionsDerender,
            "/tokenize" => Self::Tokenize,
            "/detokenize" => Self::Detokenize,
            "/v1/models" => Self::Models,
            "/health" => Self::Health,
            "/ping" => Self::Ping,
            "/version" => Self::Version,
            "/load" => Self::Load,
            "/metrics" => Self::Metrics,
            _ => return None,
        })
    }

    /// The methods it has, as `Allow` lists them.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Models | Self::Health | Self::Version | Self::Load | Self::Metrics => "GET",
            Self::Ping => "GET, POST",
            _ => "POST",
        }
    }

    /// Its name in metrics.
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
            Self::Ping => "/ping",
            Self::Version => "/version",
            Self::Load => "/load",
            Self::Metrics => "/metrics",
        }
    }
}
