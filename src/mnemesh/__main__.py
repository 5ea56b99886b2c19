"""`python -m mnemesh` is `mnemesh`."""

from mnemesh.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
