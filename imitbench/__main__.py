"""`python -m imitbench` is the `imitbench` command."""

from imitbench.cli.main import main

if __name__ == "__main__":
    main()
