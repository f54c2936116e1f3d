"""hwmatrix (placeholder while rooms are built)."""
