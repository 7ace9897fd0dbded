//! The resource that configured a policy, route or backend.

use linkerd_proxy_core::Destination;
use std::{fmt, num::NonZeroU16};

/// The resource that configured a policy, route or backend. Compared as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meta {
    /// An implicit configuration, by name.
    Default(String),
    /// A resource of the cluster.
    Resource(Resource),
}

/// A resource of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// API group; `core` for services.
    pub group: String,
    /// Kind, such as `Service` or `HTTPRoute`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Section, such as a listener's name.
    pub section: Option<String>,
    /// Port.
    pub port: Option<NonZeroU16>,
}

impl Meta {
    /// An implicit configuration.
    pub fn new_default(name: impl Into<String>) -> Self {
        Self::Default(name.into())
    }

    /// The service that a destination such as `web.default.svc.cluster.local:80` names.
    pub fn of_service(destination: &Destination) -> Option<Self> {
        let mut labels = destination.name().split('.');
        let (name, namespace, svc) = (labels.next()?, labels.next()?, labels.next()?);
        let plausible =
            !name.is_empty() && !namespace.is_empty() && svc.eq_ignore_ascii_case("svc");
        plausible.then(|| {
            Self::Resource(Resource {
                group: "core".into(),
                kind: "Service".into(),
                name: name.into(),
                namespace: namespace.into(),
                section: None,
                port: NonZeroU16::new(destination.port()),
            })
        })
    }

    /// The API group; empty for defaults.
    pub fn group(&self) -> &str {
        match self {
            Self::Default(_) => "",
            Self::Resource(resource) => &resource.group,
        }
    }

    /// The kind; `default` for defaults.
    pub fn kind(&self) -> &str {
        match self {
            Self::Default(_) => "default",
            Self::Resource(resource) => &resource.kind,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self {
            Self::Default(name) => name,
            Self::Resource(resource) => &resource.name,
        }
    }

    /// The kind and the name, such as `server/web`, as in the names of inbound policies' resources.
    pub fn kind_and_name(&self) -> impl fmt::Display + '_ {
        KindAndName(self)
    }

    /// The namespace; empty for defaults.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Default(_) => "",
            Self::Resource(resource) => &resource.namespace,
        }
    }

    /// The section, or an empty text.
    pub fn section(&self) -> &str {
        match self {
            Self::Default(_) => "",
            Self::Resource(resource) => resource.section.as_deref().unwrap_or_default(),
        }
    }

    /// The port.
    pub fn port(&self) -> Option<NonZeroU16> {
        match self {
            Self::Default(_) => None,
            Self::Resource(resource) => resource.port,
        }
    }
}

struct KindAndName<'a>(&'a Meta);

impl fmt::Display for KindAndName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.kind(), self.0.name())
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(name) => write!(f, "default.{name}"),
            Self::Resource(resource) => {
                let Resource {
                    kind,
                    namespace,
                    name,
                    ..
                } = resource;
                write!(f, "{kind}.{namespace}.{name}")?;
                match resource.port {
                    Some(port) => write!(f, ":{port}"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_as_users_know_it() {
        assert_eq!(
            Meta::new_default("endpoint").to_string(),
            "default.endpoint"
        );
        let of_service = |text: &str| Meta::of_service(&text.parse().unwrap());
        let service = of_service("web.books.svc.cluster.local:80").unwrap();
        assert_eq!(service.to_string(), "Service.books.web:80");
        assert_eq!(service.group(), "core");
        assert_eq!(of_service("web.example.com:80"), None);
        assert_eq!(of_service("web:80"), None);
    }

    #[test]
    fn is_compared_whole() {
        let service = |text: &str| Meta::of_service(&text.parse().unwrap()).unwrap();
        assert_ne!(service("web.books.svc:80"), service("web.default.svc:80"));
        assert_ne!(service("web.books.svc:80"), service("web.books.svc:81"));
    }
}
