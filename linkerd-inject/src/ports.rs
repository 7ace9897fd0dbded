//! The ports that a workload declares.

use crate::{field::integer, problem::Problem, workload::Workload, yaml::Node};

/// A TCP port of a container that runs beside the proxy.
pub(crate) struct DeclaredPort<'w> {
    pub(crate) number: u16,
    pub(crate) name: Option<&'w str>,
    pub(crate) line: u64,
}

/// The TCP ports of all containers that run beside the proxy, in their order, and the problems of values that are no ports.
pub(crate) fn declared_ports<'w>(
    workload: &'w Workload<'_>,
) -> (Vec<DeclaredPort<'w>>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (_, container) in workload.running() {
        for port in container.get("ports").map_or(&[][..], Node::items) {
            let is_tcp = port
                .get("protocol")
                .is_none_or(|it| it.is_null() || it.is_text("TCP"));
            let Some(node) = port.get("containerPort").filter(|_| is_tcp) else {
                continue;
            };
            match integer("containerPort", node, 1..=i64::from(u16::MAX)) {
                Ok(number) => found.push(DeclaredPort {
                    // The range has been checked.
                    number: u16::try_from(number).unwrap_or_default(),
                    name: port.get("name").and_then(Node::text),
                    line: node.line,
                }),
                Err(problem) => problems.push(problem),
            }
        }
    }
    (found, problems)
}
