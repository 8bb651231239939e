"""What MLflow would cut or bend without saying so, checked before it is sent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gradassay.goldens.errors import StoreError

MAX_METRICS = 30
MAX_TAGS = 20
MAX_TAG_CHARACTERS = 5000
MAX_KEY_CHARACTERS = 250
LEFT_OUT = "gradassay.metrics_left_out"
_METRIC_NAME = re.compile(r"[\w\-. ]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run shows in MLflow: at most 30 finite metrics and at most 20 tags, none of which MLflow would change."""

    metrics: Mapping[str, float]
    tags: Mapping[str, str]


def summarise(metrics: Mapping[str, float], tags: Mapping[str, str]) -> Summary:
    """The metrics and tags to send.

    A metric that MLflow cannot hold (not finite, a name it refuses, more than 30) is left out and named in the tag
    `gradassay.metrics_left_out`. Raises StoreError for a tag that MLflow would cut.
    """
    kept: dict[str, float] = {}
    left_out: list[str] = []
    for name, value in metrics.items():
        if not math.isfinite(value):
            left_out.append(f"{name} = {value}")
        elif _METRIC_NAME.fullmatch(name) is None or len(name) > MAX_KEY_CHARACTERS:
            left_out.append(f"{name[:MAX_KEY_CHARACTERS]}: not a name that MLflow accepts")
        elif len(kept) == MAX_METRICS:
            left_out.append(f"{name}: more than {MAX_METRICS}")
        else:
            kept[name] = value
    sent = {key: value for key, value in tags.items() if value}
    if left_out:
        shown = left_out[:12]
        more = [f"and {len(left_out) - len(shown)} more"] if len(left_out) > len(shown) else []
        sent[LEFT_OUT] = "; ".join([*shown, *more])
    check_tags(sent)
    return Summary(metrics=kept, tags=sent)


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises StoreError where there are more than 20 tags, or one is longer than 5,000 characters."""
    if len(tags) > MAX_TAGS:
        raise StoreError(f"{len(tags)} tags for one MLflow run, allowed are {MAX_TAGS}: {', '.join(tags)}")
    for key, value in tags.items():
        if len(value) > MAX_TAG_CHARACTERS or len(key) > MAX_KEY_CHARACTERS:
            raise StoreError(
                f"{key}: {len(value)} characters, and MLflow would cut it; allowed are {MAX_TAG_CHARACTERS}",
                hint=f"shorten it; it begins with {value[:60]!r}",
                field=key,
            )
