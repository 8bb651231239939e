"""A new revision of the service's database, written from what models and revisions differ in.

1. Change api/gradassay/api/database/tables.py.
2. python ci/revision.py 0002 "Runs know their branch"
3. Read and mend what it wrote; tests/api/database checks that models and revisions agree, up and down.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from alembic import command

from gradassay.api.database.database import Database
from gradassay.api.database.migrate import MIGRATIONS, configuration, upgrade


def write_revision(identifier: str, message: str) -> Path:
    """The file of the new revision."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/empty.db")
        if any((MIGRATIONS / "versions").glob("*.py")):
            upgrade(database)
        with database.write() as session:
            config = configuration(session.connection())
            config.set_main_option("file_template", "revision_%%(rev)s")
            command.revision(config, message, autogenerate=True, rev_id=identifier)
        database.close()
    path = MIGRATIONS / "versions" / f"revision_{identifier}.py"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.strip().startswith("# ###")))
    subprocess.run(["ruff", "format", "--quiet", path], check=True)
    subprocess.run(["ruff", "check", "--quiet", "--fix", path], check=True)
    return path


if __name__ == "__main__":
    print(write_revision(*sys.argv[1:]))
