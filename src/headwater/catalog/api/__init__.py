"""The catalog over HTTP: routes, authorization and limits."""
