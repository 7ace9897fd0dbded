//! Network namespaces, in which traffic can be redirected.
