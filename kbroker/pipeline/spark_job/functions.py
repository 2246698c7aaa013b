"""`pyspark.sql.functions`, imported when the first of them is called: modules that name them can be
imported where there is no pyspark, and before a command has said all that it can without.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("pyspark.sql.functions"), name)
