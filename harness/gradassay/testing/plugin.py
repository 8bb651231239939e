"""pytest's hooks, wired; everything that takes time to import is imported when a test needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gradassay.testing.options import add_options, header, settle
from gradassay.testing.session import Testing, told_by_controller

if TYPE_CHECKING:
    from gradassay.testing.check import Check
    from gradassay.testing.fixture import Gradassay
    from gradassay.testing.summary import Summary

SESSION: pytest.StashKey[Testing] = pytest.StashKey()
CHECK: pytest.StashKey[Check] = pytest.StashKey()
SUMMARY: pytest.StashKey[Summary] = pytest.StashKey()
LEFT_OUT: pytest.StashKey[Counter[str]] = pytest.StashKey()
PLAN = "_gradassay_plan"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker and settles what this process of the session is."""
    config.addinivalue_line(
        "markers",
        "gradassay(problem, strategy, layouts, golden='approved', framework, dtype, fault, options, deadline_s | matrix): "
        "runs cells of a training step and asserts that their gradients agree with a golden (docs/pytest.md)",
    )
    config.stash[LEFT_OUT] = Counter()
    config.stash[SESSION] = Testing(settle(config), told_by_controller(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends what the session started."""
    if SESSION in config.stash:
        config.stash[SESSION].close()


def pytest_report_header(config: pytest.Config) -> str:
    """Says where goldens come from and what ranks run on."""
    return header(config.stash[SESSION].options)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a cell of the marker."""
    if metafunc.definition.get_closest_marker("gradassay") is None:
        return
    from gradassay.goldens.errors import GradassayError
    from gradassay.testing.marker import plans

    try:
        found, left_out = plans(metafunc.definition, root=metafunc.config.rootpath)
    except GradassayError as error:
        raise pytest.Collector.CollectError(str(error)) from error
    metafunc.config.stash[LEFT_OUT].update(left_out)
    metafunc.fixturenames.append(PLAN)
    metafunc.parametrize(PLAN, found, ids=[plan.id for plan in found])


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Says which combinations of matrix files make no test."""
    return [f"gradassay: left out, {count} times: {reason}" for reason, count in config.stash[LEFT_OUT].items()]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Lets fork servers import what cells need while the first tests begin; the controller of workers collects nothing."""
    found = dict.fromkeys(plan.cell.framework for item in session.items if (plan := _parameters(item).get(PLAN)))
    if found and not session.config.option.collectonly:
        session.config.stash[SESSION].cells.warm(found)


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Runs the cell of a marked test, after its fixtures, which may skip it or set something up."""
    if item.get_closest_marker("gradassay") is None or item.config.getoption("setuponly", default=False):
        return
    if PLAN not in _parameters(item):
        pytest.fail(
            "@pytest.mark.gradassay had no effect: it must be on a plain test function when tests are collected, "
            "not on a unittest.TestCase and not added later",
            pytrace=False,
        )
    _check(item).prepare()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Asserts agreement before the body of a marked test."""
    if PLAN in _parameters(pyfuncitem):
        _check(pyfuncitem).agree()
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Forgets the test; one that is run again begins anew."""
    if item.stash.get(CHECK, None) is not None:
        del item.stash[CHECK]
        session = item.config.stash[SESSION]
        if session.is_worker:
            from gradassay.testing.crash import end

            end(session, item.nodeid)


@pytest.fixture
def gradassay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gradassay:
    """What the test's marker ran (`record`, `assay`), and comparisons of the test's own (`run`, `assert_agrees`)."""
    from gradassay.testing.fixture import Gradassay

    item: pytest.Item = request.node
    return Gradassay(_check(item), item.path.parent, lambda: Path(tmp_path_factory.mktemp("gradassay")))


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec is not None else {}


def _check(item: pytest.Item) -> Check:
    if item.stash.get(CHECK, None) is None:
        from gradassay.testing.check import Check

        session = item.config.stash[SESSION]
        if session.is_worker:
            from gradassay.testing.crash import begin

            begin(session, item.nodeid)
        item.stash[CHECK] = Check(item, session, _parameters(item).get(PLAN))
    return item.stash[CHECK]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends the ranks of this process; the controller, whose workers are gone by then, publishes."""
    testing = session.config.stash[SESSION]
    testing.end_ranks()
    if testing.is_worker:
        return
    options = testing.options
    if options.update or options.report is not None:
        from gradassay.testing.summary import publish

        summary = session.config.stash[SUMMARY] = publish(testing)
        if (options.update or summary.broken) and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says what was published, and what was skipped for want of a golden."""
    summary = config.stash.get(SUMMARY, None)
    lines = list(summary.lines) if summary is not None else []
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        from gradassay.testing.summary import without_golden

        lines += without_golden(skipped)
    if config.stash[SESSION].options.update:
        lines.append("--golden-update: this session fails whatever its tests came to")
    if lines:
        terminalreporter.section("gradassay", yellow=True, bold=True)
        for line in lines:
            terminalreporter.line(line, yellow=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist where the session's parts and records go."""
    node.workerinput["gradassay"] = node.config.stash[SESSION].told


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """Makes a test whose worker died an error of its cell."""
    node: Any = getattr(report, "node", None)
    if node is not None:
        from gradassay.testing.crash import explain

        explain(node.config.stash[SESSION], crashitem, report, node.gateway.id)
