"""`python -m hwmatrix.target zygote|server|template|child ...`.

Kept as the `__main__` of a package: multiprocessing's spawn does not import such a module again.
"""

from __future__ import annotations

import sys


def _main() -> int:
    kind, *rest = sys.argv[1:]
    if kind == "zygote":
        from hwmatrix.target import zygote

        return zygote.main(rest)
    if kind == "server":
        from hwmatrix.target import server

        return server.main(rest)
    if kind == "template":
        from hwmatrix.target import template

        return template.main(rest)
    from hwmatrix.target import child

    return child.main(rest)


if __name__ == "__main__":
    sys.exit(_main())
