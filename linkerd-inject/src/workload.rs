//! Workloads and namespaces among the objects of a manifest.

use crate::yaml::{Node, NodeKind, PathStep};

/// An object with pods.
pub(crate) struct Workload<'n> {
    pub(crate) kind: &'static str,
    /// The name; `None` for a generated one.
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    /// The kind and the name for messages, and the document if there are several.
    pub(crate) label: String,
    pub(crate) object: &'n Node,
    /// The pod template: it has the `metadata` and `spec` of the pods.
    pub(crate) template: Option<&'n Node>,
    pub(crate) path: Vec<PathStep>,
}

/// An object of any kind, or another value of a document.
pub(crate) struct Object<'n> {
    pub(crate) node: &'n Node,
    pub(crate) version: Option<&'n str>,
    pub(crate) kind: Option<&'n str>,
    path: Vec<PathStep>,
    /// The document, from 1, if there are several.
    document: Option<usize>,
}

/// The objects of all documents, including objects in lists.
pub(crate) fn objects(documents: &[Node]) -> Vec<Object<'_>> {
    let mut found = Vec::new();
    for (n, node) in documents.iter().enumerate() {
        let document = (documents.len() > 1).then_some(n + 1);
        let (version, kind) = (text(node, "apiVersion"), text(node, "kind"));
        let object = Object {
            node,
            version,
            kind,
            path: vec![PathStep::Index(n)],
            document,
        };
        collect(object, &mut found);
    }
    found
}

impl<'n> Object<'n> {
    pub(crate) fn is(&self, version: &str, kind: &str) -> bool {
        self.version == Some(version) && self.kind == Some(kind)
    }

    pub(crate) fn name(&self) -> Option<&'n str> {
        self.node.at(&["metadata", "name"])?.text()
    }

    /// The kind and the name for messages.
    pub(crate) fn label(&self) -> String {
        let generated = self.node.at(&["metadata", "generateName"]);
        let name = self.name().or(generated.and_then(Node::text));
        let label = format!("{}/{}", self.kind.unwrap_or("object"), name.unwrap_or("?"));
        match self.document {
            Some(document) if !self.is_map() => format!("document {document}"),
            None if !self.is_map() => "document".to_owned(),
            Some(document) => format!("{label} (document {document})"),
            None => label,
        }
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.node.kind, NodeKind::Map { .. })
    }

    /// The workload, if the object is one.
    pub(crate) fn workload(&self) -> Option<Workload<'n>> {
        let (_, kind, template) = KINDS.iter().find(|(v, kind, _)| self.is(v, kind))?;
        let mut path = self.path.clone();
        path.extend(template.iter().map(|key| PathStep::Key((*key).to_owned())));
        let namespace = self.node.at(&["metadata", "namespace"]);
        Some(Workload {
            kind,
            name: self.name().map(str::to_owned),
            namespace: namespace.and_then(Node::text).map(str::to_owned),
            label: self.label(),
            object: self.node,
            template: self.node.at(template),
            path,
        })
    }
}

impl Workload<'_> {
    /// The path of a node within the template.
    pub(crate) fn path_to(&self, keys: &[&str]) -> Vec<PathStep> {
        let keys = keys.iter().map(|key| PathStep::Key((*key).to_owned()));
        self.path.iter().cloned().chain(keys).collect()
    }

    /// An entry of the template's labels or annotations.
    pub(crate) fn metadata(&self, kind: &str, key: &str) -> Option<&str> {
        self.template?.at(&["metadata", kind, key])?.text()
    }

    pub(crate) fn label_value(&self, key: &str) -> Option<&str> {
        self.metadata("labels", key)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata("annotations", key)
    }

    pub(crate) fn spec(&self, path: &[&str]) -> Option<&Node> {
        self.template?.get("spec")?.at(path)
    }

    /// The containers that run beside the proxy: all but those that end before the others start. Native sidecars come last.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&str, &Node)> {
        let is_sidecar = |(_, node): &(&str, &Node)| {
            let policy = node.get("restartPolicy");
            policy.is_some_and(|policy| policy.is_text("Always"))
        };
        let sidecars = self.containers("initContainers").filter(is_sidecar);
        self.containers("containers").chain(sidecars)
    }

    /// The containers of a list, with their names.
    pub(crate) fn containers(&self, list: &str) -> impl Iterator<Item = (&str, &Node)> {
        let items = self.spec(&[list]).map_or(&[][..], Node::items);
        items.iter().map(|item| {
            let name = item.get("name").and_then(Node::text);
            (name.unwrap_or_default(), item)
        })
    }
}

/// Adds an object, or those of a list. Like kubectl, items without a type have that of their list.
fn collect<'n>(object: Object<'n>, found: &mut Vec<Object<'n>>) {
    let of_items = object.kind.and_then(|kind| kind.strip_suffix("List"));
    let items = of_items.and_then(|_| object.node.get("items"));
    let Some(items) = items.filter(|items| matches!(items.kind, NodeKind::List { .. })) else {
        found.push(object);
        return;
    };
    let of_items = of_items.filter(|kind| !kind.is_empty());
    for (n, node) in items.items().iter().enumerate() {
        let mut path = object.path.clone();
        path.extend([PathStep::Key("items".to_owned()), PathStep::Index(n)]);
        let (version, kind) = (text(node, "apiVersion"), text(node, "kind"));
        let (version, kind) = match (version, kind) {
            (Some(_), Some(_)) => (version, kind),
            _ if of_items.is_some() => (object.version, of_items),
            _ => (version, kind),
        };
        let item = Object {
            node,
            version,
            kind,
            path,
            document: object.document,
        };
        collect(item, found);
    }
}

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key)?.text()
}

/// The version of a kind of workload, and its name in the right spelling.
pub(crate) fn version_of(kind: &str) -> Option<(&'static str, &'static str)> {
    let mut kinds = KINDS.iter();
    let (version, kind, _) = kinds.find(|(_, known, _)| known.eq_ignore_ascii_case(kind))?;
    Some((version, kind))
}

/// The version and the kind of each workload, and the path to its pod template.
const KINDS: &[(&str, &str, &[&str])] = &[
    ("v1", "Pod", &[]),
    ("v1", "ReplicationController", &["spec", "template"]),
    ("apps/v1", "Deployment", &["spec", "template"]),
    ("apps/v1", "StatefulSet", &["spec", "template"]),
    ("apps/v1", "DaemonSet", &["spec", "template"]),
    ("apps/v1", "ReplicaSet", &["spec", "template"]),
    ("batch/v1", "Job", &["spec", "template"]),
    (
        "batch/v1",
        "CronJob",
        &["spec", "jobTemplate", "spec", "template"],
    ),
];
