"""`python -m lance_spark`; see docs/reference/command-line.md."""

import sys

from lance_spark.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
