//! Workloads and namespaces among the objects of a manifest.

use crate::yaml::{Node, PathStep};

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

/// An object of any kind.
pub(crate) struct Object<'n> {
    pub(crate) node: &'n Node,
    path: Vec<PathStep>,
    /// The document, from 1, if there are several.
    document: Option<usize>,
}

/// The objects of all documents, including objects in lists.
pub(crate) fn objects(documents: &[Node]) -> Vec<Object<'_>> {
    let mut found = Vec::new();
    for (n, node) in documents.iter().enumerate() {
        let document = (documents.len() > 1).then_some(n + 1);
        collect(node, vec![PathStep::Index(n)], document, &mut found);
    }
    found
}

impl<'n> Object<'n> {
    pub(crate) fn is(&self, version: &str, kind: &str) -> bool {
        let is = |key, text| {
            self.node
                .get(key)
                .is_some_and(|node: &Node| node.is_text(text))
        };
        is("apiVersion", version) && is("kind", kind)
    }

    pub(crate) fn name(&self) -> Option<&'n str> {
        self.node.at(&["metadata", "name"])?.text()
    }

    /// The kind and the name for messages.
    pub(crate) fn label(&self) -> String {
        let kind = self.node.get("kind").and_then(Node::text);
        let generated = self.node.at(&["metadata", "generateName"]);
        let name = self.name().or(generated.and_then(Node::text));
        let label = format!("{}/{}", kind.unwrap_or("object"), name.unwrap_or("?"));
        match self.document {
            Some(document) => format!("{label} (document {document})"),
            None => label,
        }
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

    /// The containers of a list, with their names.
    pub(crate) fn containers(&self, list: &str) -> impl Iterator<Item = (&str, &Node)> {
        let items = self.spec(&[list]).map_or(&[][..], Node::items);
        items.iter().map(|item| {
            let name = item.get("name").and_then(Node::text);
            (name.unwrap_or_default(), item)
        })
    }
}

fn collect<'n>(
    node: &'n Node,
    path: Vec<PathStep>,
    document: Option<usize>,
    found: &mut Vec<Object<'n>>,
) {
    let kind = node.get("kind").and_then(Node::text).unwrap_or_default();
    let items = node.get("items").filter(|_| kind.ends_with("List"));
    for (n, item) in items.map_or(&[][..], Node::items).iter().enumerate() {
        let mut path = path.clone();
        path.extend([PathStep::Key("items".to_owned()), PathStep::Index(n)]);
        collect(item, path, document, found);
    }
    if items.is_none() {
        found.push(Object {
            node,
            path,
            document,
        });
    }
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
