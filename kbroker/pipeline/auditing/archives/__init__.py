"""An archive by itself: manifests, files, and what they hold together."""
