//! The fork server, which forks builders and watches over them.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_builds::BuildOutcome;
use mneme_builds::protocol::{BuildOrder, BuildReply};
use mneme_model::configuration::Configuration;
use mneme_model::hash::chunk_id;
use mneme_sandbox::child::Child;
use mneme_sandbox::frame::{Inbox, Outbox};
use mneme_sandbox::readiness::Waiting;
use nix::poll::PollFlags;

use super::assemblies::Assemblies;
use super::builder::{Builder, BuilderProgress};
use super::inputs::{Build, Inputs};
use super::preload::Preload;

/// Serves orders until the stream ends. `keeps_ir` says whether it may read the recorded IR itself.
///
/// # Errors
/// If the stream or the system fails.
pub fn serve(inputs: &Inputs, supervisor: UnixStream, keeps_ir: bool) -> std::io::Result<()> {
    supervisor.set_nonblocking(true)?;
    let mut server = Server {
        inputs,
        supervisor,
        inbox: Inbox::default(),
        outbox: Outbox::default(),
        builders: Vec::new(),
        leaving: Vec::new(),
        assemblies: Assemblies::default(),
        preload: keeps_ir.then(Preload::default),
    };
    server.run()
}

/// A running builder.
struct AtWork {
    order: BuildOrder,
    builder: Builder,
    /// Whether an assembler has ended an earlier builder of the order.
    again: bool,
    /// Whether it compiles the recorded IR.
    of_recording: bool,
}

struct Server<'a> {
    inputs: &'a Inputs,
    supervisor: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    builders: Vec<AtWork>,
    /// Builders that are done and still exiting, which takes milliseconds for a process with LLVM.
    leaving: Vec<Child>,
    assemblies: Assemblies,
    preload: Option<Preload>,
}

impl Server<'_> {
    fn run(&mut self) -> std::io::Result<()> {
        loop {
            self.outbox.flush(&mut self.supervisor)?;
            let ready = self.wait()?;
            let now = Instant::now();
            // From the end, so removals do not move the others.
            for at in (0..self.builders.len()).rev() {
                let AtWork { order, builder, .. } = &mut self.builders[at];
                match if ready[at + 1] || builder.is_closed() { builder.progress() } else { BuilderProgress::AtWork } {
                    BuilderProgress::AtWork if builder.deadline() <= now => {
                        let outcome = builder.time_out();
                        self.done(at, outcome)?;
                    }
                    BuilderProgress::AtWork => {}
                    BuilderProgress::Asks(ptx) => {
                        let assemble = self.assemblies.ask(order.number, ptx);
                        builder.answer(assemble);
                    }
                    BuilderProgress::Done(outcome) => self.done(at, *outcome)?,
                }
            }
            self.leaving.retain_mut(|child| child.end().is_none());
            if ready[0] && !self.inbox.receive(&mut self.supervisor)? {
                return Ok(());
            }
            while let Some((order, _)) = self.inbox.pop::<BuildOrder>()? {
                self.start(order, None)?;
            }
        }
    }

    /// Starts a builder. `lost` describes how the assembler ended an earlier one; the new one does without that
    /// assembler.
    fn start(&mut self, order: BuildOrder, lost: Option<String>) -> std::io::Result<()> {
        let memory = self.inputs.plan.memory;
        let build = Build::new(self.inputs, &order.target, &order.spec);
        let preloaded = self.preload.as_mut().and_then(|preload| preload.of(&build));
        let build = Build { preloaded, lost: lost.as_deref(), ..build };
        let builder = Builder::start(&build, assembler_options(&order.spec.configuration), order.limit, memory)?;
        let of_recording = Preload::concerns(&build);
        let again = lost.is_some();
        self.builders.push(AtWork { order, builder, again, of_recording });
        Ok(())
    }

    /// Handles a builder's outcome: answers its order, and those that waited for its code.
    fn done(&mut self, at: usize, outcome: BuildOutcome) -> std::io::Result<()> {
        let AtWork { order, mut builder, again, of_recording } = self.builders.swap_remove(at);
        if let Some(how) = builder.lost_to_the_assembler().filter(|_| !again) {
            // Both attempts together have the time of one.
            let limit = builder.deadline().saturating_duration_since(Instant::now());
            return self.start(BuildOrder { limit, ..order }, Some(how));
        }
        self.leaving.push(builder.dismiss());
        if let (Ok(_), true, Some(preload)) = (&outcome, of_recording, &mut self.preload) {
            preload.proved();
        }
        for (number, outcome, assembled) in self.assemblies.settle(order.number, outcome) {
            let (outcome, image) = match outcome {
                Some(Ok((built, image))) => (Some(Ok(built)), image),
                Some(Err(not_built)) => (Some(Err(not_built)), Vec::new()),
                None => (None, Vec::new()),
            };
            self.outbox.push(&BuildReply { number, outcome, assembled }, &image)?;
        }
        Ok(())
    }

    /// Waits for the supervisor, a builder or a deadline. Returns which of them can be read, the supervisor first.
    fn wait(&self) -> std::io::Result<Vec<bool>> {
        let mut waiting = Waiting::default();
        let supervisor = waiting.on(Some(self.supervisor.as_fd()), self.outbox.interest());
        let builders =
            self.builders.iter().map(|it| waiting.on(it.builder.fd(), PollFlags::POLLIN)).collect::<Vec<_>>();
        let going = !self.leaving.is_empty() || self.builders.iter().any(|it| it.builder.is_closed());
        waiting.until(going.then(|| Instant::now() + Duration::from_millis(10)));
        waiting.until(self.builders.iter().map(|it| it.builder.deadline()));
        let ready = waiting.wait()?;
        Ok(std::iter::once(supervisor).chain(builders).map(|source| ready.is(source)).collect())
    }
}

/// A number for assembler options, because equal PTX with other options is other code.
fn assembler_options(configuration: &Configuration) -> u64 {
    let options = configuration.clone().reset(|field| !field.reaches_assembler);
    let hash = chunk_id(&serde_json::to_vec(&options).expect("plain data serialises")).0;
    u64::from_le_bytes(hash[..8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_builds::{BuildPlan, BuildSpec, RecordedKernel, Replacement, Target};
    use mneme_model::launch::Dim3;
    use mneme_recording::CodeKind;
    use mneme_sandbox::child::ChildStderr;
    use mneme_sandbox::frame;

    /// A loop whose counter is 0 and then 1. nvPTXCompiler 13.0 asks for a table of minus 300 MB for it, and writes to
    /// an invalid address.
    const ENDS_THE_ASSEMBLER: &str = ".version 8.5\n\
        .target sm_90\n\
        .address_size 64\n\
        .visible .entry k(.param .u64 out, .param .align 2 .b8 a[2])\n\
        {\n\
        .reg .pred %p<2>;\n\
        .reg .b32 %r<4>;\n\
        .reg .b64 %rd<8>;\n\
        mov.b64 %rd1, a;\n\
        mov.u64 %rd2, %rd1;\n\
        ld.param.u64 %rd3, [out];\n\
        mov.u32 %r1, 31;\n\
        mov.u64 %rd4, 0;\n\
        mov.u64 %rd5, 1;\n\
        $L__BB0_1:\n\
        add.s64 %rd6, %rd2, %rd4;\n\
        ld.param.u8 %r2, [%rd6];\n\
        mad.lo.s32 %r1, %r1, 31, %r2;\n\
        setp.eq.s64 %p1, %rd4, 0;\n\
        mov.u64 %rd4, %rd5;\n\
        @%p1 bra $L__BB0_1;\n\
        st.global.u32 [%rd3], %r1;\n\
        ret;\n\
        }\n";

    #[test]
    fn an_assembler_that_is_ended_gives_way_to_the_next() {
        let recorded = RecordedKernel { name: "k".into(), ..RecordedKernel::default() };
        let inputs = Inputs { plan: BuildPlan { recorded, ..BuildPlan::default() }, ..Inputs::default() };
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let _child = Child::start(ChildStderr::Shown, || i32::from(serve(&inputs, theirs, false).is_err())).unwrap();
        let replacement = Replacement::of(CodeKind::Ptx, ENDS_THE_ASSEMBLER.as_bytes().to_vec()).unwrap();
        let replacement = Some(std::rc::Rc::new(replacement));
        let unit = Dim3::new(1, 1, 1);
        let spec = BuildSpec { replacement, ..BuildSpec::new(Configuration::recorded(unit, unit, 0)) };
        let target = Target::Nvptx { arch: "sm_90".into() };
        frame::write(&mut ours, &BuildOrder { number: 1, target, spec, limit: Duration::from_secs(60) }, &[]).unwrap();
        let (reply, image) = frame::read::<BuildReply>(&mut ours).unwrap().unwrap();
        let built = reply.outcome.unwrap().unwrap();
        assert!(!image.is_empty() && reply.assembled);
        // Other assemblers handle the loop.
        if crate::assembler::Assembler::find().name().starts_with("nvPTXCompiler 13.0") {
            assert!(built.assembler.ends_with("(nvPTXCompiler 13.0 was ended by SIGSEGV)"), "{}", built.assembler);
            assert!(!built.assembler.starts_with("nvPTXCompiler"), "{}", built.assembler);
        }
    }
}
