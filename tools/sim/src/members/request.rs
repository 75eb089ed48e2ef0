//! A member's requests, and what their errors mean to it.

use std::time::Duration;

use rillway_shard::OFFSETS_TOPIC;
use rillway_wire::ErrorCode;
use rillway_wire::api::{
    describe_configs, find_coordinator, heartbeat, incremental_alter_configs, join_group,
    leave_group, sync_group,
};

use super::Member;
use super::assign::{decode, range, subscription};
use crate::client::{Client, Lost};
use crate::oracle::groups::JoinShown;

const ALTER: i16 = 1;
const FIND: i16 = 4;
const BEAT: i16 = 4;
const LEAVE: i16 = 4;
const SYNC: i16 = 5;
const SYNC_OLD: i16 = 3;

/// What the leader has assigned: member ids and their bytes.
pub(super) type Assignments = Vec<(String, Vec<u8>)>;

impl Member {
    /// Connects, mostly to the group's coordinator; any other core passes requests on.
    pub(super) async fn connected(&mut self) -> Result<(), Lost> {
        if self.client.is_some() && !self.rng.percent(2) {
            return Ok(());
        }
        self.client = None;
        let port = self.hub.any_port(&mut self.rng);
        let mut client = Client::connect(&self.hub, &self.rt, port).await?.of_member();
        if self.rng.percent(85) {
            let keys = vec![self.group.name.as_str()];
            let request =
                find_coordinator::Request { coordinator_keys: keys.into(), ..Default::default() };
            let answer = client.call(&request, FIND).await?;
            let body: find_coordinator::Response<'_> = answer.body(FIND);
            let found = body.coordinators.first().expect("one group was asked for");
            match found.error_code {
                ErrorCode::None => {
                    let port = u16::try_from(found.port).expect("a port");
                    client = Client::connect(&self.hub, &self.rt, port).await?.of_member();
                }
                code => {
                    self.failed("find", code);
                    return Err(Lost);
                }
            }
        }
        self.client = Some(client);
        Ok(())
    }

    /// What an error of a group means.
    pub(super) fn failed(&mut self, what: &str, code: ErrorCode) {
        self.say(|| format!("{what}: {code:?}"));
        match code {
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => {
                self.out();
                self.id.clear();
                self.generation = -1;
            }
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => self.out(),
            ErrorCode::NotCoordinator => self.client = None,
            ErrorCode::CoordinatorLoadInProgress => {}
            // The disk is full, or the broker is stopping.
            ErrorCode::CoordinatorNotAvailable => {
                self.hub.seen.borrow_mut().groups_not_available += 1;
            }
            code => {
                let (n, group) = (self.n, &self.group.name);
                self.hub.oracle.complain(format!("member {n} of {group}: {what}: {code:?}"));
            }
        }
    }

    fn life(&self) -> u64 {
        self.hub.life.get()
    }

    /// Joins. The assignments to hand in, which only a leader has; `None`: it did not succeed.
    pub(super) async fn join(&mut self) -> Result<Option<Assignments>, Lost> {
        let topics = self.hub.oracle.settled();
        let names: Vec<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
        let metadata = subscription(&names, self.flavour);
        let protocol = join_group::Protocol { name: "range", metadata: &metadata };
        let (id, instance) = (self.id.clone(), self.instance.clone());
        let request = join_group::Request {
            group_id: &self.group.name,
            session_timeout_ms: self.group.session_ms as i32,
            rebalance_timeout_ms: self.group.rebalance_ms as i32,
            member_id: &id,
            group_instance_id: instance.as_deref(),
            protocol_type: "consumer",
            protocols: vec![protocol].into(),
            ..Default::default()
        };
        let ticket = self.hub.oracle.asking(&self.group.name, &self.id, -1, self.life());
        // Some clients are impatient, and ask again while the group waits.
        let patience = if self.rng.percent(10) { 20 } else { 3 * self.group.rebalance_ms };
        let client = self.client.as_mut().ok_or(Lost)?;
        client.wait_longer(Duration::from_millis(patience));
        let answer = client.call(&request, self.join_version).await?;
        let body: join_group::Response<'_> = answer.body(self.join_version);
        match body.error_code {
            ErrorCode::None => {}
            ErrorCode::MemberIdRequired => {
                body.member_id.clone_into(&mut self.id);
                return Ok(None);
            }
            code => {
                self.failed("join", code);
                return Ok(None);
            }
        }
        let leads = body.leader == body.member_id;
        let members: Vec<&str> = body.members.iter().map(|m| m.member_id).collect();
        let generation = body.generation_id;
        let shown = JoinShown {
            generation,
            member: body.member_id,
            instance: instance.as_deref(),
            members: if body.skip_assignment { Vec::new() } else { members.clone() },
        };
        self.hub.oracle.joined(&ticket, &shown);
        self.say(|| format!("joined {generation}, leads: {leads}, with {} others", members.len()));
        if generation != self.generation {
            self.hub.seen.borrow_mut().generations += u64::from(leads);
        }
        body.member_id.clone_into(&mut self.id);
        self.generation = generation;
        self.leads = leads;
        if !leads || body.skip_assignment {
            // Who skips does not know what the assignment was made for.
            self.assigned.clear();
            return Ok(Some(Assignments::new()));
        }
        let given = range(&members, &topics, generation);
        self.assigned = topics.clone();
        Ok(Some(given.into_iter().map(|(id, bytes)| (id.to_owned(), bytes)).collect()))
    }

    pub(super) async fn sync(&mut self, assignments: Assignments) -> Result<(), Lost> {
        let assignments = assignments
            .iter()
            .map(|(id, bytes)| sync_group::Assignment { member_id: id, assignment: bytes });
        let new = self.join_version >= 9;
        let (version, kind) = if new { (SYNC, Some("consumer")) } else { (SYNC_OLD, None) };
        let request = sync_group::Request {
            group_id: &self.group.name,
            generation_id: self.generation,
            member_id: &self.id,
            group_instance_id: self.instance.as_deref(),
            protocol_type: kind,
            protocol_name: kind.map(|_| "range"),
            assignments: assignments.collect(),
        };
        let ticket =
            self.hub.oracle.asking(&self.group.name, &self.id, self.generation, self.life());
        let client = self.client.as_mut().ok_or(Lost)?;
        client.wait_longer(Duration::from_millis(2 * self.group.rebalance_ms));
        let answer = client.call(&request, version).await?;
        let body: sync_group::Response<'_> = answer.body(version);
        match body.error_code {
            ErrorCode::None => {}
            code => {
                self.failed("sync", code);
                return Ok(());
            }
        }
        match decode(body.assignment) {
            Some(assignment) => {
                self.hub.oracle.synced(&ticket, &assignment);
                self.say(|| format!("has {} partitions", assignment.partitions.len()));
                self.part = Some(assignment.partitions);
                self.hub.seen.borrow_mut().parts += 1;
            }
            None => {
                let bytes = body.assignment;
                let what = format!("group {}: the assignment {bytes:02x?}", self.group.name);
                self.hub.oracle.complain(what);
            }
        }
        Ok(())
    }

    pub(super) async fn beat(&mut self) {
        if self.connected().await.is_err() {
            self.client = None;
            return;
        }
        let request = heartbeat::Request {
            group_id: &self.group.name,
            generation_id: self.generation,
            member_id: &self.id,
            group_instance_id: self.instance.as_deref(),
        };
        let life = self.life();
        let ticket = self.hub.oracle.asking(&self.group.name, &self.id, self.generation, life);
        let Some(client) = &mut self.client else { return };
        client.wait_longer(Duration::ZERO);
        let Ok(answer) = client.call(&request, BEAT).await else {
            self.client = None;
            return;
        };
        let body: heartbeat::Response = answer.body(BEAT);
        match body.error_code {
            ErrorCode::None => {
                self.hub.oracle.accepted(&ticket, "heartbeat");
                self.beats += 1;
                self.went_on(life);
            }
            code => self.failed("heartbeat", code),
        }
    }

    /// It was accepted in this life of the broker. Counted once for each, if it got its part in an earlier one.
    pub(super) fn went_on(&mut self, life: u64) {
        if self.heard_in != life {
            self.hub.seen.borrow_mut().survived += u64::from(self.heard_in != 0);
            self.heard_in = life;
        }
    }

    /// Has the topic of offsets roll after moments, so that it is cleaned while groups commit.
    pub(super) async fn shorten_segments(&mut self) {
        let ms = self.rng.range(30, 400).to_string();
        let config = |name, value| incremental_alter_configs::Config {
            name,
            config_operation: incremental_alter_configs::SET,
            value: Some(value),
        };
        let resource = incremental_alter_configs::Resource {
            resource_type: describe_configs::TOPIC,
            resource_name: OFFSETS_TOPIC,
            configs: vec![
                config("segment.ms", ms.as_str()),
                config("min.cleanable.dirty.ratio", "0.1"),
                config("delete.retention.ms", ms.as_str()),
            ]
            .into(),
        };
        let request = incremental_alter_configs::Request {
            resources: vec![resource].into(),
            ..Default::default()
        };
        let Some(client) = &mut self.client else { return };
        client.wait_longer(Duration::ZERO);
        let Ok(answer) = client.call(&request, ALTER).await else {
            self.client = None;
            return;
        };
        let body: incremental_alter_configs::Response<'_> = answer.body(ALTER);
        let told = body.responses.first().expect("one topic was named");
        self.say(|| format!("segment.ms {ms}: {:?} {:?}", told.error_code, told.error_message));
    }

    pub(super) async fn leave(&mut self) {
        let member = leave_group::Member {
            member_id: &self.id,
            group_instance_id: self.instance.as_deref(),
            ..Default::default()
        };
        let request = leave_group::Request {
            group_id: &self.group.name,
            members: vec![member].into(),
            ..Default::default()
        };
        let life = self.life();
        let ticket = self.hub.oracle.asking(&self.group.name, &self.id, self.generation, life);
        if let Some(client) = &mut self.client {
            client.wait_longer(Duration::ZERO);
            if let Ok(answer) = client.call(&request, LEAVE).await {
                let body: leave_group::Response<'_> = answer.body(LEAVE);
                let first = body.members.first().map(|m| m.error_code);
                if body.error_code == ErrorCode::None && first == Some(ErrorCode::None) {
                    self.hub.oracle.left(&ticket, life);
                }
            }
        }
        self.say(|| "leaves".to_owned());
        self.out();
        self.client = None;
        self.id.clear();
        self.generation = -1;
    }
}
