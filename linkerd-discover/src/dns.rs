//! Finding the control plane by DNS.
