//! Who may come in: connections of the whole node, and of one address, are counted and bounded (Kafka: max.connections,
//! max.connections.per.ip).
//!
//! Shared by all cores, since a client's connections land on any of them. The lock is taken when a connection comes and
//! when it goes, never on the way of a request, and never across an await.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The count of one node. Clone: the same count.
#[derive(Clone, Debug, Default)]
pub struct Admission(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Admission,
    address: IpAddr,
}

impl Admission {
    /// Counts a connection, or says which limit it is beyond.
    pub(crate) fn enter(
        &self,
        address: IpAddr,
        total_max: usize,
        per_address_max: usize,
    ) -> Result<Admitted, String> {
        let address = address.to_canonical();
        let mut open = self.0.lock().expect("nobody panics while holding it");
        if open.total >= total_max {
            return Err(format!(
                "{} connections are open, the limit of max.connections",
                open.total
            ));
        }
        let of_address = open.by_address.get(&address).copied().unwrap_or(0);
        if of_address >= per_address_max {
            return Err(format!(
                "{of_address} connections of this address are open, the limit of max.connections.per.ip"
            ));
        }
        open.total += 1;
        open.by_address.insert(address, of_address + 1);
        Ok(Admitted { admission: self.clone(), address })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.admission.0.lock().expect("nobody panics while holding it");
        open.total -= 1;
        let left = open.by_address.get(&self.address).map_or(0, |n| n - 1);
        if left == 0 {
            open.by_address.remove(&self.address);
        } else {
            open.by_address.insert(self.address, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_who_leaves_makes_room() {
        let admission = Admission::default();
        let enter = |ip: &str| admission.enter(ip.parse().unwrap(), 3, 2);
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("::ffff:10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").unwrap_err().contains("per.ip"));
        let _third = enter("10.0.0.2").unwrap();
        assert!(enter("10.0.0.3").unwrap_err().contains("max.connections"));
        drop(first);
        assert!(enter("10.0.0.1").is_ok());
        assert_eq!(admission.0.lock().unwrap().total, 2, "the last one has left again");
    }
}
