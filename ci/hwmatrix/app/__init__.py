"""The stages chained: what `nox -s NAME` and `python -m hwmatrix` do. Only `cli.py` exits."""
