"""An archive by itself: manifests, files, and how they fit together."""
