//! The objects of an installation, and its pods.

use super::deploy;
use crate::{text_of, yaml_values::documents};
use linkerd_inject::InjectOptions;
use serde_json::Value;
use std::{collections::BTreeMap, fs};

/// A controller, and the example in its mesh file.
pub struct Installation {
    pub name: String,
    control: Vec<Value>,
    /// The example without sidecars.
    pub example: Vec<Value>,
}

/// The template of a workload's pods.
pub struct PodTemplate {
    namespace: Value,
    labels: BTreeMap<String, Value>,
    /// The environment of the sidecar, in its order, with the values that do not depend on the pod.
    environment: Vec<(String, String)>,
    /// The image of the sidecar.
    image: Option<String>,
}

/// The objects of a file, or of the files of a folder.
pub fn objects_in(path: &str) -> Vec<Value> {
    texts_in(path)
        .iter()
        .flat_map(|text| documents(text))
        .collect()
}

impl Installation {
    pub fn of(path: &str) -> Self {
        Self {
            name: path.to_owned(),
            control: objects_in(path),
            example: objects_in(EXAMPLE),
        }
    }

    /// The controller's objects.
    pub fn all(&self) -> impl Iterator<Item = &Value> {
        self.control.iter()
    }

    pub fn object(&self, kind: &str, name: &str) -> &Value {
        let mut all = self.all();
        let found = all.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{}: no {kind} {name}", self.name))
    }

    /// A Service of the example by its DNS name.
    pub fn service_named(&self, name: &str) -> &Value {
        let is_meant = |it: &&Value| {
            let part = |key: &str| it["metadata"][key].as_str().unwrap_or_default();
            let full = format!("{}.{}.svc.cluster.local", part("name"), part("namespace"));
            it["kind"] == "Service" && full == name
        };
        let found = self.example.iter().find(is_meant);
        found.unwrap_or_else(|| panic!("no Service {name}"))
    }

    /// The mesh file.
    pub fn mesh(&self) -> Value {
        let map = self.object("ConfigMap", "linkerd-control-mesh");
        documents(map["data"]["mesh.yaml"].as_str().unwrap()).remove(0)
    }

    /// The pods of the controller and of the example.
    pub fn pods(&self) -> Vec<PodTemplate> {
        templates(self.all().chain(&self.example))
    }

    /// The pods of the example, with sidecars of this mesh.
    pub fn sidecars(&self) -> Vec<PodTemplate> {
        let mut options = InjectOptions::default();
        options.mesh.control_plane_namespace = "linkerd-proxy".to_owned();
        let texts = texts_in(EXAMPLE);
        let texts: Vec<_> = texts.iter().map(|text| text_of(text, &options)).collect();
        let objects: Vec<_> = texts.iter().flat_map(|text| documents(text)).collect();
        templates(objects.iter())
    }
}

impl PodTemplate {
    fn new(workload: &Value) -> Self {
        let template = &workload["spec"]["template"];
        let labels = template["metadata"]["labels"].as_object().unwrap();
        let labels = labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        let containers = template["spec"]["initContainers"].as_array();
        let mut containers = containers.into_iter().flatten();
        let proxy = containers.find(|it| it["name"] == "linkerd-proxy");
        let account = template["spec"]["serviceAccountName"].as_str().unwrap();
        let namespace = workload["metadata"]["namespace"].clone();
        let of_pod = [
            ("_pod_ns", namespace.as_str().unwrap()),
            ("_pod_sa", account),
        ];
        let mut environment: Vec<(String, String)> = Vec::new();
        let image = proxy.map(|proxy| proxy["image"].as_str().unwrap().to_owned());
        let variables = proxy.and_then(|proxy| proxy["env"].as_array());
        for variable in variables.into_iter().flatten() {
            let name = variable["name"].as_str().unwrap();
            let known = of_pod.iter().find(|(known, _)| *known == name);
            let mut value = match known {
                Some((_, value)) => (*value).to_owned(),
                None => variable["value"].as_str().unwrap_or_default().to_owned(),
            };
            for (name, known) in &environment {
                value = value.replace(&format!("$({name})"), known);
            }
            environment.push((name.to_owned(), value));
        }
        Self {
            namespace,
            labels: labels.collect(),
            environment,
            image,
        }
    }

    /// The image of the sidecar.
    pub fn image(&self) -> &str {
        self.image.as_deref().unwrap()
    }

    /// A variable of the sidecar.
    pub fn variable(&self, name: &str) -> &str {
        let found = self.environment.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name}")).1
    }

    /// Whether the selector of a namespace selects the pod.
    pub fn is_met(&self, namespace: &Value, selector: &Value) -> bool {
        let mut labels = selector.as_object().unwrap().iter();
        *namespace == self.namespace
            && labels.all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

fn templates<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<PodTemplate> {
    let workloads = objects.filter(|object| object["kind"] == "Deployment");
    workloads.map(PodTemplate::new).collect()
}

fn texts_in(path: &str) -> Vec<String> {
    let path = deploy().join(path);
    if path.is_file() {
        return vec![fs::read_to_string(&path).unwrap()];
    }
    let entries = fs::read_dir(&path).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| !file.ends_with("kustomization.yaml"));
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.collect()
}

const EXAMPLE: &str = "kubernetes/example";
