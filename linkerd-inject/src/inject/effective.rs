//! The settings of one workload: its annotations, those of its namespace, and the defaults.

use crate::{
    annotations::{meant_setting, pod_annotations, setting},
    problem::Problem,
    settings::{CONFIG_PREFIX, ISTIO_SETTINGS, ProxySettings, setting_names},
    workload::Workload,
};

pub(super) struct EffectiveSettings {
    pub(super) settings: ProxySettings,
    /// The annotations of the pods as written.
    pub(super) annotations: Vec<(String, String)>,
    /// Annotations of the namespace that pods lack: they are copied, as controllers read them only from pods.
    pub(super) inherited: Vec<(String, String)>,
    pub(super) warnings: Vec<String>,
    pub(super) problems: Vec<Problem>,
}

impl EffectiveSettings {
    /// Reads the annotations of a workload and of its namespace.
    pub(super) fn of(
        workload: &Workload<'_>,
        namespace: &[(String, String)],
        defaults: &ProxySettings,
    ) -> Self {
        let annotations = pod_annotations(workload);
        let has = |key: &str| {
            annotations
                .iter()
                .any(|(own, _)| setting(own) == setting(key))
        };
        let inherited = namespace
            .iter()
            .filter(|(key, _)| setting(key).is_some() && !has(key));
        let mut effective = Self {
            settings: defaults.clone(),
            inherited: inherited.cloned().collect(),
            annotations,
            warnings: Vec::new(),
            problems: Vec::new(),
        };
        let line = workload.object.line;
        for (key, value) in effective.inherited.clone() {
            effective.set(setting(&key), &key, &value, line);
        }
        for (key, value) in effective.annotations.clone() {
            let place = workload
                .template
                .and_then(|it| it.at(&["metadata", "annotations", &key]));
            let line = place.map_or(line, |node| node.line);
            let istio = ISTIO_SETTINGS.iter().find(|(istio, _)| *istio == key);
            let name = istio.map(|(_, name)| *name).or_else(|| setting(&key));
            effective.set(name, &key, &value, line);
        }
        let all = namespace.iter().chain(&effective.annotations);
        let misspelt = all.filter_map(|(key, _)| Some((key, meant_setting(key)?)));
        let misspelt: Vec<_> = misspelt
            .map(|(key, meant)| format!("{key} has no effect; did you mean {meant}?"))
            .collect();
        effective.warnings.extend(misspelt);
        if effective.settings.require_identity_ports.is_some() {
            let warning = "proxy-require-identity-inbound-ports is enforced by Linkerd's policy controller, and not by the proxy: \
                without it, write a server with an authorization of meshTLS for these ports";
            effective.warnings.push(warning.to_owned());
        }
        if effective.settings.debug_sidecar {
            let warning = "there is no debug sidecar: enable-debug-sidecar has no effect";
            effective.warnings.push(warning.to_owned());
        }
        effective
    }

    fn set(&mut self, name: Option<&str>, key: &str, value: &str, line: u64) {
        let Some(name) = name else { return };
        if !setting_names().any(|known| known == name) {
            let warning = format!("there is no setting {key}: it has no effect");
            self.warnings.push(warning);
            return;
        }
        if let Err(error) = self.settings.set(name, value) {
            let source = match key.starts_with(CONFIG_PREFIX) {
                true => String::new(),
                false => format!(" (annotation {key})"),
            };
            self.problems
                .push(Problem::new(line, format!("{error}{source}")));
        }
    }
}
