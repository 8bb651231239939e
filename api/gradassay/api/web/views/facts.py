"""What a service runs with, without its secrets."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from gradassay.api.settings import ServiceSettings
from gradassay.goldens.store.open import default_store


def service_facts(settings: ServiceSettings, *, release: str, file_format: int) -> tuple[tuple[str, str], ...]:
    """(name, value) of what people ask about a service."""
    people = f"{settings.reviewers} {'person' if settings.reviewers == 1 else 'people'}"
    return (
        ("Release", f"gradassay {release}"),
        ("File format", str(file_format)),
        ("Store", without_secret(settings.store or default_store())),
        ("Database", without_secret(settings.database_url)),
        ("Approval needs", people),
        ("Largest upload", f"{settings.max_upload_bytes / 2**20:,.0f} MiB"),
        ("CI identities from", ", ".join(str(issuer.issuer) for issuer in settings.oidc_issuers) or "nobody"),
    )


def without_secret(address: str) -> str:
    """The address with what stands between user and host, and after ?, left out."""
    parts = urlsplit(address)
    if not parts.netloc:
        return address
    user, at, host = parts.netloc.rpartition("@")
    shown = f"{user.partition(':')[0]}:…@{host}" if at else host
    return urlunsplit((parts.scheme, shown, parts.path, "…" if parts.query else "", ""))
