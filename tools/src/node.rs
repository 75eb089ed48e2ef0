//! Runs a subcommand on one core of `rillway-io`, and the arguments that every subcommand has.

use std::future::Future;
use std::time::Duration;

use clap::Args;
use rillway_client::{Address, Client, Config, TopicInfo};
use rillway_io::kernel::{KernelOptions, start};
use rillway_io::{Class, Runtime};
use rillway_wire::ErrorCode;

use crate::error::{Error, Result};

/// A CPU that no machine has: the executor is left to the scheduler, so that it does not share a core with a broker
/// that is pinned to it while others are idle.
const ANY_CPU: usize = usize::MAX;

#[derive(Args, Clone, Debug)]
pub(crate) struct Connection {
    /// A broker to ask for the others; several are separated by commas.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "RILLCTL_BOOTSTRAP",
        default_value = "127.0.0.1:9092",
        value_delimiter = ','
    )]
    bootstrap: Vec<Address>,
    /// How long to try before giving up on a question.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    timeout: u64,
}

impl Connection {
    pub(crate) fn client(&self, rt: &Runtime) -> Client {
        let timeout = Duration::from_secs(self.timeout.max(1));
        let config = Config {
            client_id: "rillctl".to_string(),
            call_timeout: timeout,
            ..Config::new(self.bootstrap.clone())
        };
        let client = Client::new(rt, config);
        rt.spawn(Class::Background, tell_early(rt.clone(), client.clone(), timeout)).detach();
        client
    }
}

/// Says that no broker can be reached when that is found out, and not when the time is up: a wrong address is seen at
/// once, and a broker that is starting is still waited for.
async fn tell_early(rt: Runtime, client: Client, timeout: Duration) {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while waited < timeout {
        rt.sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
        if let Some(error @ rillway_client::Error::Connect { .. }) = client.last_error() {
            eprintln!("rillctl: {error}; trying for {} s", timeout.as_secs());
            return;
        }
    }
}

/// Runs `main` to its end.
pub(crate) fn run<A, F, Fut>(args: A, main: F) -> Result<()>
where
    A: Clone + Send + 'static,
    F: Fn(Runtime, A) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = Result<()>> + 'static,
{
    let options = KernelOptions { cpus: vec![ANY_CPU], ..KernelOptions::default() };
    let node = start(options, move |rt| main(rt, args.clone()))?;
    node.join().into_iter().collect()
}

/// Looks a topic up; `None` when there is none.
pub(crate) async fn find_topic(client: &Client, name: &str) -> Result<Option<TopicInfo>> {
    let topics = client.topics(Some(vec![name.to_string()])).await?;
    let Some(topic) = topics.into_iter().find(|t| t.name == name) else {
        return Ok(None);
    };
    match topic.error {
        // Without a leader it is there all the same; whoever needs the leader waits for it.
        ErrorCode::None | ErrorCode::LeaderNotAvailable => Ok(Some(topic)),
        ErrorCode::UnknownTopicOrPartition => Ok(None),
        code => Err(Error::Client(rillway_client::Error::Broker {
            doing: format!("looking up topic {name}"),
            code,
            message: None,
        })),
    }
}
