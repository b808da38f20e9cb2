"""The admission webhook: `review` decides over one AdmissionReview, `server` speaks TLS."""
