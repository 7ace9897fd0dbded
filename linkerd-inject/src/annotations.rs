//! Annotations and labels of pods and namespaces, by name.

use crate::{
    field::not_texts,
    problem::Problem,
    settings::{CONFIG_PREFIX, setting_names},
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

/// The pod security standard that a namespace enforces.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// The prefix of the label with the name of a pod's owner; the owner's kind follows.
pub(crate) const OWNER_PREFIX: &str = "linkerd.io/proxy-";

/// The prefixes of settings: Linkerd has some under those of earlier stages, which mean the same.
const CONFIG_PREFIXES: [&str; 3] = [
    CONFIG_PREFIX,
    "config.alpha.linkerd.io/",
    "config.beta.linkerd.io/",
];

/// The setting that an annotation names.
pub(crate) fn setting(name: &str) -> Option<&str> {
    let mut prefixes = CONFIG_PREFIXES.iter();
    prefixes.find_map(|prefix| name.strip_prefix(prefix))
}

/// The annotation that one with a misspelt prefix may mean: the prefix is near to that of settings, or has a known setting
/// and is another one of Linkerd.
pub(crate) fn meant_setting(name: &str) -> Option<String> {
    let (prefix, setting_name) = name.split_once('/')?;
    if setting(name).is_some() || prefix.len() > MAX_PREFIX {
        return None;
    }
    let near = CONFIG_PREFIXES.iter().find(|known| {
        let known = known.trim_end_matches('/');
        strsim::osa_distance(&prefix.to_ascii_lowercase(), known) <= MAX_SLIPS
    });
    let of_linkerd = prefix == "linkerd.io" || prefix.ends_with(".linkerd.io");
    let is_known = || setting_names().any(|known| known == setting_name);
    let meant = match near {
        Some(prefix) => prefix,
        None if of_linkerd && is_known() => CONFIG_PREFIX,
        None => return None,
    };
    Some(format!("{meant}{setting_name}"))
}

/// The most slips in a prefix that still means the known one. Other prefixes of Linkerd (`viz.linkerd.io`,
/// `retry.linkerd.io`) are further away.
const MAX_SLIPS: usize = 2;

/// The longest prefix that is compared.
const MAX_PREFIX: usize = 64;

/// The namespaces among the manifests, by name.
#[derive(Default)]
pub(crate) struct Namespaces(BTreeMap<String, Namespace>);

struct Namespace {
    annotations: Vec<(String, String)>,
    /// The pod security standard that is enforced.
    standard: Option<String>,
}

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
            let standard = object.node.at(&["metadata", "labels", POD_SECURITY]);
            let standard = standard.and_then(Node::text).map(str::to_owned);
            let annotations = texts(annotations);
            self.0.insert(
                name,
                Namespace {
                    annotations,
                    standard,
                },
            );
        }
        problems
    }

    /// The annotations of a namespace; none if the namespace is not known.
    pub(crate) fn annotations(&self, name: Option<&str>) -> &[(String, String)] {
        let found = name.and_then(|name| self.0.get(name));
        found.map_or(&[], |namespace| namespace.annotations.as_slice())
    }

    /// The pod security standard of a namespace that forbids pods to add capabilities.
    pub(crate) fn forbids_capabilities(&self, name: Option<&str>) -> Option<&str> {
        let standard = self.0.get(name?)?.standard.as_deref();
        standard.filter(|standard| ["baseline", "restricted"].contains(standard))
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
