"""Find nodes of a fleet whose results differ from the others': variance components, robust centres, categories."""
