from __future__ import annotations

import numpy as np
import pytest
import torch

from gradassay.harness.capture.exchange import Exchange
from rank_jobs import Job, run_jobs
from rank_tables import numbered_table, tables_and_document

PAIRS = [(first, second) for first in (0, 3, 1023, 1024, 1025, 2700) for second in (0, 1024, 2700)]


@pytest.mark.dist
def test_every_rank_gets_all_tables_whole_whatever_their_length() -> None:
    (results,) = run_jobs(2, [Job(function=tables_and_document, arguments=(PAIRS,))])
    for *tables, documents in results:
        for lengths, found in zip(PAIRS, tables, strict=True):
            for rank, length in enumerate(lengths):
                np.testing.assert_array_equal(found[rank], numbered_table(length, rank))
        assert [(document["rank"], len(document["text"])) for document in documents] == [(0, 0), (1, 10_000)]


def test_one_process_has_its_own_table() -> None:
    alone = Exchange(group=None, device=torch.device("cpu"))
    assert [table.tolist() for table in alone.tables(numbered_table(2, 0))] == [[[1, 2], [3, 4]]]
