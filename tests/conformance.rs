//! Answers recorded from real vLLM 0.33, replayed against this build.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod kit;

use kit::{Servers, cases, check};

/// Without a parser everything is exact: texts, logprobs, usage, errors, every chunk, and every field of the state.
#[test]
fn plain_output_is_vllms_to_the_chunk() {
    let mut servers = Servers::default();
    let mut checked = 0;
    for case in cases(|file| file.starts_with("plain-")) {
        let context = servers.of(&case);
        for result in check(&context, &case) {
            let name = format!("{} {} {}", case.file, case.line["id"], result.part);
            assert!(result.exact, "{name}\n want {}\n  got {}", result.want, result.got);
            assert!(result.state, "{name}: stream_state differs");
            checked += 1;
        }
    }
    assert_eq!(checked, 551, "every recorded answer was compared");
}
