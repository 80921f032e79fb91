"""Pictures of figures, and pages that hold them: the only package that draws (matplotlib)."""
