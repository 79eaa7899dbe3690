//! Whether an engine runs the model that it should.
//!
//! In: what an engine says of itself ([`Capabilities`]). Out: what it calls the model, the adapters it has for it, and why
//! it must not be sent requests. Deliberately absent: asking.

use std::collections::BTreeMap;

use super::capabilities::{Capabilities, EngineModel};

/// What an engine has to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectation {
    /// What the engine calls the model, where the settings say so; nothing else counts then.
    pub name: Option<String>,
    /// What couplet calls it: an engine may have the same names.
    pub served_names: Vec<String>,
    /// Directory or hub id: an engine says where it loaded the model from.
    pub model: String,
    /// Longest prompt plus reply that couplet lets through; 0: any will do.
    pub max_model_len: u64,
    /// Width of the logits, as `config.json` says; 0: not known.
    pub vocab_size: u64,
}

/// What became of the comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fit {
    /// Why it gets no requests.
    pub misfit: Option<String>,
    /// What may not be what was meant.
    pub warning: Option<String>,
    /// The LoRA adapters of the model: names, and where they were loaded from.
    pub adapters: BTreeMap<String, Option<String>>,
}

impl Expectation {
    /// Compares an engine with what it has to be.
    pub fn judge(&self, engine: &Capabilities) -> Fit {
        let is_base = |model: &&EngineModel| model.parent.is_none();
        let Some(base) = engine.models.iter().filter(is_base).find(|model| self.is_meant(model)) else {
            return Fit { misfit: Some(self.wrong_model(engine)), ..Fit::default() };
        };
        if let Some(size) = engine.vocab_size
            && self.vocab_size != 0
            && size != self.vocab_size
        {
            let wanted = self.vocab_size;
            let misfit =
                format!("its vocabulary has {size} tokens, that of {} has {wanted}: it is another model", self.model);
            return Fit { misfit: Some(misfit), ..Fit::default() };
        }
        // An engine has one base model, of which all its names are aliases.
        let of_base = |model: &&EngineModel| {
            model.parent.as_ref().is_some_and(|parent| engine.models.iter().any(|base| base.id == *parent))
        };
        let adapters =
            engine.models.iter().filter(of_base).map(|model| (model.id.clone(), model.root.clone())).collect();
        let warning = base.max_model_len.filter(|length| *length < self.max_model_len).map(|length| {
            let most = self.max_model_len;
            format!("its context of {length} tokens is shorter than the {most} that are let through; set max_model_len")
        });
        Fit { misfit: None, warning, adapters }
    }

    fn is_meant(&self, model: &EngineModel) -> bool {
        if let Some(name) = &self.name {
            return model.id == *name;
        }
        self.served_names.contains(&model.id)
            || is_same_path(&model.id, &self.model)
            || model.root.as_deref().is_some_and(|root| is_same_path(root, &self.model))
    }

    fn wrong_model(&self, engine: &Capabilities) -> String {
        let told = |model: &EngineModel| match &model.root {
            Some(root) if *root != model.id => format!("{} (from {root})", model.id),
            _ => model.id.clone(),
        };
        let serves: Vec<String> = engine.models.iter().map(told).collect();
        let wanted = self.name.as_deref().unwrap_or(&self.model);
        format!(
            "it serves {}, not {wanted}; if that is the same model, name it as the engine's `model:`",
            if serves.is_empty() { "nothing".to_owned() } else { serves.join(", ") }
        )
    }
}

/// The same directory or hub id, or two whose last parts are the same: engines mount models elsewhere, or load them from
/// the hub.
fn is_same_path(one: &str, other: &str) -> bool {
    let last = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
    one == other || (!last(one).is_empty() && last(one) == last(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation() -> Expectation {
        Expectation {
            name: None,
            served_names: vec!["chat".to_owned()],
            model: "Qwen/Qwen3-8B".to_owned(),
            max_model_len: 4096,
            vocab_size: 100,
        }
    }

    fn engine(models: &[(&str, &str, Option<&str>)]) -> Capabilities {
        let model = |(id, root, parent): &(&str, &str, Option<&str>)| EngineModel {
            id: (*id).to_owned(),
            root: Some((*root).to_owned()),
            parent: parent.map(str::to_owned),
            max_model_len: Some(4096),
        };
        Capabilities { models: models.iter().map(model).collect(), vocab_size: Some(100), ..Capabilities::default() }
    }

    #[test]
    fn an_engine_is_known_by_its_names_or_by_where_it_loaded_the_model() {
        let named = Expectation { name: Some("x".to_owned()), ..expectation() };
        for (expectation, id, root, fits) in [
            (expectation(), "chat", "/data/a", true),
            (expectation(), "Qwen/Qwen3-8B", "Qwen/Qwen3-8B", true),
            (expectation(), "/models/Qwen3-8B/", "/models/Qwen3-8B/", true),
            (expectation(), "q", "/models/qwen3-8b", true),
            (expectation(), "q", "Qwen/Qwen3-14B", false),
            (expectation(), "/", "/", false),
            (named.clone(), "x", "/data/a", true),
            (named, "chat", "Qwen/Qwen3-8B", false),
        ] {
            let misfit = expectation.judge(&engine(&[(id, root, None)])).misfit;
            assert_eq!(misfit.is_none(), fits, "{id}, {root}: {misfit:?}");
        }
        let misfit = expectation().judge(&engine(&[("q", "/data/a", None)])).misfit.unwrap();
        assert!(misfit.contains("q (from /data/a), not Qwen/Qwen3-8B"), "{misfit}");
    }

    #[test]
    fn another_vocabulary_is_another_model_and_a_shorter_context_is_told() {
        let other = Capabilities { vocab_size: Some(101), ..engine(&[("chat", "a", None)]) };
        assert!(expectation().judge(&other).misfit.unwrap().contains("101"));
        let silent = Capabilities { vocab_size: None, ..engine(&[("chat", "a", None)]) };
        assert_eq!(expectation().judge(&silent), Fit::default());
        let longer = Expectation { max_model_len: 8192, ..expectation() };
        let fit = longer.judge(&engine(&[("chat", "a", None)]));
        assert!(fit.misfit.is_none() && fit.warning.unwrap().contains("4096"));
    }

    #[test]
    fn adapters_are_those_of_the_model() {
        let fit = expectation().judge(&engine(&[
            ("chat", "a", None),
            ("alias", "a", None),
            ("sql", "/loras/sql", Some("chat")),
            ("law", "/loras/law", Some("alias")),
            ("stray", "/loras/stray", Some("other")),
        ]));
        assert_eq!(fit.adapters.keys().collect::<Vec<_>>(), ["law", "sql"]);
        assert_eq!(fit.adapters["sql"].as_deref(), Some("/loras/sql"));
        let only_adapters = expectation().judge(&engine(&[("sql", "Qwen/Qwen3-8B", Some("chat"))]));
        assert!(only_adapters.misfit.is_some());
    }
}
