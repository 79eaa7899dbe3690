use serde_json::{Map, Value};
pub fn effective_template_kwargs(_m: &crate::model::Model, r: &crate::api::chat::ChatRequest) -> Map<String, Value> {
    r.chat_template_kwargs.clone().unwrap_or_default()
}
pub struct Rendered {
    pub generate: crate::api::generate::GenerateRequest,
    pub prompt_text: Option<String>,
    pub chat_template_kwargs: Map<String, Value>,
}
