"""``python -m drkit``: the same as ``drkit``."""

from drkit.cli.main import main

if __name__ == "__main__":
    main()
