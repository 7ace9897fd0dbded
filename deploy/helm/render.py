#!/usr/bin/env python3
"""Renders the chart by Helm's own code, and compares it with the files in `rendered`, which the Rust tests check.

    python3 -m venv .venv && .venv/bin/pip install -r deploy/helm/requirements.txt
    .venv/bin/python deploy/helm/render.py [--update]
"""

import pathlib
import sys

import helm_python as helm

HERE = pathlib.Path(__file__).parent
CHART = HERE / "linkerd-proxy"

# Values that the schema refuses, with a word of the message.
REFUSED = [
    ("replica: 3", "replica"),
    ("replicas: two", "replicas"),
    ("replicas: 0", "replicas"),
    ("image: {repository: ''}", "repository"),
    ("image: {pullPolicy: Sometimes}", "pullPolicy"),
    ("trustDomain: Cluster_Local", "trustDomain"),
    ("authority: {secretName: a b}", "secretName"),
    ("tokenKeys: {configMapName: a b}", "configMapName"),
    ("mesh: {service: []}", "service"),
    ("mesh: {services: [{port: 80}]}", "name"),
    ("mesh: {services: [], defaultAccessPolicy: allow}", "defaultAccessPolicy"),
    ("podLabels: {a: 1}", "podLabels"),
    ("networkPolicy: {enabled: 'yes'}", "enabled"),
]


def rendered(chart, values):
    """All manifests in the order of their files, and the notes."""
    files = chart.render(values, name="mesh", namespace="linkerd-proxy")
    notes = next((text for path, text in files.items() if path.endswith("NOTES.txt")), "")
    names = [path for path in sorted(files) if path.endswith(".yaml") and files[path].strip()]
    documents = [f"# {path}\n{files[path].strip()}\n" for path in names]
    return "---\n".join(documents), notes


def main():
    update = "--update" in sys.argv
    failures = []
    for finding in helm.lint(str(CHART))["messages"]:
        # An icon is for catalogues.
        if "icon is recommended" not in str(finding):
            failures.append(f"lint: {finding}")
    with helm.Chart.load(str(CHART)) as chart:
        for name in ["default", "example", "all"]:
            file = HERE / f"{name}-values.yaml"
            given = helm.values_from_yaml(file.read_text()) if file.exists() else {}
            text, notes = rendered(chart, given)
            if chart.schema is None or "{{" in text + notes:
                failures.append(f"{name}: not rendered, or without a schema")
            golden = HERE / "rendered" / f"{name}.yaml"
            if update:
                golden.parent.mkdir(exist_ok=True)
                golden.write_text(text)
            if not golden.exists() or golden.read_text() != text:
                failures.append(f"{golden.name} is not what the chart renders; run with --update")
        for text, word in REFUSED:
            try:
                chart.render(helm.values_from_yaml(text), name="mesh", namespace="linkerd-proxy")
                failures.append(f"accepted: {text}")
            except helm.HelmError as error:
                if word not in str(error):
                    failures.append(f"{text}: {error}")
    print("\n".join(failures) or f"the chart is as it was rendered, by Helm {helm.helm_sdk_version()}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
