//! When an engine is asked for one token with a mask, and when it may go on freely.
//!
//! After a violation a few steps are asked for with a mask; twice as many after each that follows closely: a model that
//! breaks its grammar again and again then costs one round trip per token instead of two. Where most tokens may come, a
//! token that was refused is drawn again freely before that: the mask would be a list of most of the vocabulary, which an
//! engine reads for longer than it computes, and the free draw is as exact and probably allowed.

/// Steps with a mask after the first violation.
const FIRST: usize = 1;
const MOST: usize = 64;
/// Tokens that come freely until a violation counts as the first again.
const FORGIVEN: usize = 8;
/// Free draws for one place in the reply, where most tokens may come there.
const DRAWS: usize = 2;

/// What came freely and what was refused.
#[derive(Debug, Default)]
pub(super) struct Masks {
    /// Steps that are still asked for with a mask.
    left: usize,
    /// How many there were after the last violation.
    run: usize,
    /// Tokens that came freely since.
    free: usize,
    /// Tokens that were refused where the reply stands.
    refused: usize,
}

impl Masks {
    /// A token was refused.
    pub(super) fn violated(&mut self) {
        self.run = if self.free >= FORGIVEN { FIRST } else { (self.run * 2).clamp(FIRST, MOST) };
        self.left = self.run;
        self.free = 0;
        self.refused += 1;
    }

    /// A token was taken, which the engine drew freely or not.
    pub(super) fn accepted(&mut self, freely: bool) {
        self.free += usize::from(freely);
        self.refused = 0;
    }

    /// Whether there may be one for the next step.
    pub(super) fn is_due(&self) -> bool {
        self.left > 0
    }

    /// Whether there is one for the next step, where it is due; `is_wide` tells that most tokens may come.
    pub(super) fn take(&mut self, is_wide: bool) -> bool {
        if is_wide && self.refused < DRAWS {
            return false;
        }
        self.left = self.left.saturating_sub(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(masks: &mut Masks) -> usize {
        let mut count = 0;
        while masks.is_due() && masks.take(false) {
            masks.accepted(false);
            count += 1;
        }
        count
    }

    #[test]
    fn violations_that_follow_closely_cost_more_masks_each() {
        let mut masks = Masks::default();
        let mut runs = Vec::new();
        for _ in 0..9 {
            masks.violated();
            runs.push(masked(&mut masks));
            masks.accepted(true);
        }
        assert_eq!(runs, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        (0..FORGIVEN).for_each(|_| masks.accepted(true));
        masks.violated();
        assert_eq!(masked(&mut masks), FIRST);
    }

    #[test]
    fn where_most_may_come_a_token_is_drawn_again_before_there_is_a_mask() {
        let mut masks = Masks::default();
        masks.violated();
        assert!(masks.is_due() && !masks.take(true), "it is drawn again");
        masks.violated();
        assert!(masks.is_due() && masks.take(true), "it was refused twice");
        masks.accepted(false);
        assert!(masks.is_due() && !masks.take(true), "the reply has moved on");
    }
}
