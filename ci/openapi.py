"""api/openapi.json, as the code has it.

python ci/openapi.py            (or: make openapi)
"""

from __future__ import annotations

import json
from pathlib import Path

from gradassay.api.app import create_app
from gradassay.api.settings import ServiceSettings

PATH = Path(__file__).parents[1] / "api" / "openapi.json"


def document() -> str:
    """The document of this release, as text that changes line by line."""
    app = create_app(ServiceSettings(store="dir:unused", database_url="sqlite://"))
    return json.dumps(app.openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
