"""`python -m equipoise` is the command."""

from equipoise.cli import main

main()
