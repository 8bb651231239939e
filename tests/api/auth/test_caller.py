from __future__ import annotations

import pytest

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.scope import Scope
from gradassay.goldens.errors import Forbidden, NotFound


def caller(*scopes: Scope, project: str = "mine", operator: bool = False) -> Caller:
    return Caller(who="ci", project=project, scopes=frozenset(scopes), operator=operator)


@pytest.mark.parametrize("held", Scope)
@pytest.mark.parametrize("needed", Scope)
def test_no_scope_implies_another(held: Scope, needed: Scope):
    if held is needed:
        caller(held).require(needed)
        return
    with pytest.raises(Forbidden, match=f"needs the scope {needed}; ci has: {held}"):
        caller(held).require(needed)


def test_project_is_seen_by_its_own_callers_and_by_those_of_all():
    caller().within("mine", "run 7")
    caller(project="*").within("theirs", "run 7")
    with pytest.raises(NotFound, match="run 7 is not known"):
        caller().within("theirs", "run 7")


def test_project_named_like_the_sign_for_all_is_still_not_seen():
    assert not caller().sees("*")


def test_only_the_operator_creates_tokens():
    caller(operator=True).require_operator()
    with pytest.raises(Forbidden, match="a token cannot create tokens"):
        caller(*Scope, project="*").require_operator()
