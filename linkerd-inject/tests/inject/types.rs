//! Injected objects are valid Kubernetes objects: no field is unknown to its types.

use crate::{text_of, yaml_values::documents};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{ConfigMap, Namespace, Pod, ReplicationController, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use linkerd_inject::InjectOptions;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fs, path::Path};

#[test]
fn golden_files_have_no_field_that_kubernetes_does_not_know() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut objects = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        for document in documents(&fs::read_to_string(&path).unwrap()) {
            objects += check(&path.display().to_string(), &document);
        }
    }
    assert!(objects > 30, "{objects}");
}

#[test]
fn an_unknown_field_is_found() {
    let pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {name: a, imagge: b}\n";
    let found = std::panic::catch_unwind(|| check("pod", &documents(pod)[0]));
    assert!(found.is_err());
    let text = text_of(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n",
        &InjectOptions::default(),
    );
    assert_eq!(check("pod", &documents(&text)[0]), 1);
}

/// Checks the objects of a document, and returns their number.
pub fn check(name: &str, object: &Value) -> usize {
    let kind = object["kind"].as_str().unwrap();
    match kind {
        "List" => {
            let items = object["items"].as_array().unwrap();
            return items.iter().map(|item| check(name, item)).sum();
        }
        "Pod" => same::<Pod>(name, object),
        "Deployment" => same::<Deployment>(name, object),
        "StatefulSet" => same::<StatefulSet>(name, object),
        "DaemonSet" => same::<DaemonSet>(name, object),
        "ReplicaSet" => same::<ReplicaSet>(name, object),
        "ReplicationController" => same::<ReplicationController>(name, object),
        "Job" => same::<Job>(name, object),
        "CronJob" => same::<CronJob>(name, object),
        "Namespace" => same::<Namespace>(name, object),
        "Service" => same::<Service>(name, object),
        "ConfigMap" => same::<ConfigMap>(name, object),
        "ServiceAccount" => same::<ServiceAccount>(name, object),
        "NetworkPolicy" => same::<NetworkPolicy>(name, object),
        "PodDisruptionBudget" => same::<PodDisruptionBudget>(name, object),
        other => panic!("{name}: {other}"),
    }
    1
}

/// Checks that no field is lost in the conversion, as unknown fields would be.
fn same<T: DeserializeOwned + Serialize>(name: &str, object: &Value) {
    let typed: T =
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = serde_json::to_value(&typed).unwrap();
    lost(name, object, &written);
}

fn lost(path: &str, before: &Value, after: &Value) {
    match (before, after) {
        (Value::Object(before), _) => {
            for (key, value) in before.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{path}.{key}");
                let found = after.get(key);
                lost(
                    &path,
                    value,
                    found.unwrap_or_else(|| panic!("unknown field {path}")),
                );
            }
        }
        (Value::Array(before), _) => {
            for (n, value) in before.iter().enumerate() {
                lost(&format!("{path}[{n}]"), value, &after[n]);
            }
        }
        _ => assert_eq!(before, after, "{path}"),
    }
}
