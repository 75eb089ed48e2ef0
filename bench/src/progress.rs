//! The line on the terminal while something runs. Nothing is drawn when standard error is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line with the phase and the rate.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// `quiet`: nothing is drawn at all.
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(5)
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = "{spinner} {elapsed} {msg} {human_pos} {per_sec}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is constant"));
        Self { bar }
    }

    /// What is done now.
    pub(crate) fn phase(&self, what: &'static str) {
        self.bar.set_message(what);
        self.bar.set_position(0);
        self.bar.reset_eta();
        self.bar.tick();
    }

    /// How many of whatever is counted.
    pub(crate) fn requests(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Takes the line off the terminal.
    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }
}
