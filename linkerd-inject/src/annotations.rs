//! Annotations and labels of pods and namespaces, by name.

use crate::{
    field::not_texts,
    problem::Problem,
    settings::CONFIG_PREFIX,
    workload::{Object, Workload},
    yaml::Node,
};
use std::collections::BTreeMap;

/// `enabled`, `ingress` or `disabled`.
pub(crate) const INJECT: &str = "linkerd.io/inject";

/// Istio's opt-in and opt-out, a label and formerly an annotation.
pub(crate) const ISTIO_INJECT: &str = "sidecar.istio.io/inject";

pub(crate) const CREATED_BY: &str = "linkerd.io/created-by";
pub(crate) const PROXY_VERSION: &str = "linkerd.io/proxy-version";
pub(crate) const TRUST_ROOT: &str = "linkerd.io/trust-root-sha256";

/// The names of the namespace's annotations that were copied to the pod: `uninject` removes these and no others.
pub(crate) const INHERITED: &str = "linkerd.io/inherited-annotations";

pub(crate) const CONTROL_PLANE_NS: &str = "linkerd.io/control-plane-ns";
pub(crate) const WORKLOAD_NS: &str = "linkerd.io/workload-ns";

/// The prefix of the label with the name of a pod's owner; the owner's kind follows.
pub(crate) const OWNER_PREFIX: &str = "linkerd.io/proxy-";

/// An earlier name of some settings.
pub(crate) const ALPHA_CONFIG_PREFIX: &str = "config.alpha.linkerd.io/";

/// The setting that an annotation names.
pub(crate) fn setting(name: &str) -> Option<&str> {
    let config = name.strip_prefix(CONFIG_PREFIX);
    config.or_else(|| name.strip_prefix(ALPHA_CONFIG_PREFIX))
}

/// The annotations of namespaces, by the namespace's name.
#[derive(Default)]
pub(crate) struct Namespaces(BTreeMap<String, Vec<(String, String)>>);

impl Namespaces {
    /// Adds the namespaces among the objects. Returns the problems of their annotations.
    pub(crate) fn add(&mut self, objects: &[Object<'_>]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let namespaces = objects.iter().filter(|object| object.is("v1", "Namespace"));
        for object in namespaces {
            let annotations = object.node.at(&["metadata", "annotations"]);
            let name = object.name().unwrap_or_default().to_owned();
            let refused = not_texts(annotations);
            problems.extend(refused.into_iter().map(|it| it.of(&object.label())));
            self.0.insert(name, texts(annotations));
        }
        problems
    }

    /// The annotations of a namespace; none if the namespace is not known.
    pub(crate) fn annotations(&self, name: Option<&str>) -> &[(String, String)] {
        let found = name.and_then(|name| self.0.get(name));
        found.map_or(&[], Vec::as_slice)
    }
}

/// The annotations of a workload's pods.
pub(crate) fn pod_annotations(workload: &Workload<'_>) -> Vec<(String, String)> {
    let template = workload.template;
    texts(template.and_then(|it| it.at(&["metadata", "annotations"])))
}

fn texts(map: Option<&Node>) -> Vec<(String, String)> {
    let entries = map.map(Node::entries).unwrap_or_default();
    let texts = entries
        .into_iter()
        .filter_map(|(key, value)| Some((key.text()?, value.text()?)));
    texts
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
