"""One file per API: request and response as declared for all versions."""
