"""`python -m deepinfer`."""

import sys

from deepinfer.cli import main

sys.exit(main())
