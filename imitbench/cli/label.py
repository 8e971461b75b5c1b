"""`imitbench label`: people compare clips on a local page; their answers, and agreement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from imitbench.cli import options
from imitbench.cli.local_pages import open_browser, serve_until_stopped
from imitbench.cli.options import argument, option
from imitbench.cli.output import count, make_notifier, note, print_json, print_table, progress_bar
from imitbench.cli.push import push_preferences
from imitbench.errors import InputError
from imitbench.util.text_line import one_line
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from imitbench.labelling.answers import AnswerStore
    from imitbench.labelling.build import SetRequest
    from imitbench.labelling.fragments import Actor
    from imitbench.labelling.label_set import LabelSet
    from imitbench.labelling.queue import LabelQueue

_DEFAULT_COMMAND = "open"
_DEFAULT_GOAL = 20


class _LabelGroup(TyperGroup):
    """A group in which `imitbench label SET` stands for `imitbench label open SET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Inserts the default command if the first word is no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [_DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


app = options.command_group(
    "Compare clips of behavior on a local page: imitbench label --env Pendulum-v1 --pairs 40, "
    "or imitbench label SET.",
    cls=_LabelGroup,
)

_Set = Annotated[Path, argument("SET", "Folder of the set.")]


_OptionalSet = Annotated[Path | None, argument("SET", "Folder of a set.", show_default=False)]
_Env = Annotated[str | None, option("--env", "Make a set of episodes of this environment.", "ID")]
_Policies = Annotated[
    list[str] | None,
    option(
        "--policy",
        "Policy that acts: a run, a folder, a bundled expert, a repository, or 'random'; "
        "repeatable [random].",
        "NAME",
    ),
]
_Demos = Annotated[
    str | None, option("--demos", "Make a set of stored episodes, in any format.", "SET")
]
_PairFile = Annotated[
    Path | None,
    option(
        "--pairs-from",
        "Make a set of the pairs in a file: preferences in Parquet, a folder of label export, "
        "or a PreferenceDataset in safetensors. --env renders them.",
        "FILE",
    ),
]
_Question = Annotated[str | None, option("--question", "Question on the page.", "TEXT")]
_Goal = Annotated[int, option("--goal", "Answers after which the page suggests a break.", min=1)]
_To = Annotated[
    Path | None, option("--to", "Folder of the new set [labels/ENV].", "DIR", file_okay=False)
]
_MakeOnly = Annotated[bool, option("--make-only", "Make the set, and do not open the page.")]
_Queue = Annotated[
    bool,
    option(
        "--queue", "SET is the answers=SET of a run with gatherer=human, which may start later."
    ),
]
_Annotators = Annotated[
    list[str] | None, option("--annotator", "Annotator; repeatable [me].", "NAME")
]
_Host = Annotated[str, option("--host", "Address to listen on, e.g. 0.0.0.0.", "ADDRESS")]
_NoBrowser = Annotated[bool, option("--no-browser", "Only print the links.")]
_Runs = Annotated[Path, option("--out", "Results folder, for run ids.", "DIR", file_okay=False)]
_Trust = Annotated[
    bool, option("--trust", "Import a plug-in, or unpickle a policy: executes code.")
]


# Options that say nothing about a folder that exists, by the names of their parameters.
_TO_MAKE_ONE = {"policy", "demos", "pairs_from", "pairs", "length", "seed", "to", "out", "trust"}
_OF_NO_SET = {*_TO_MAKE_ONE, "env", "suite", "question", "goal"}
_OF_NO_QUEUE = {*_TO_MAKE_ONE, "make_only"}
_OF_THE_PAGE = {"annotator", "host", "port", "no_browser"}


@app.command(_DEFAULT_COMMAND)
def open_page(
    context: typer.Context,
    folder: _OptionalSet = None,
    env: _Env = None,
    suite: options.SuiteOfEnv = None,
    policy: _Policies = None,
    demos: _Demos = None,
    pairs_from: _PairFile = None,
    pairs: Annotated[int | None, option("--pairs", "Number of pairs [40].", min=1)] = None,
    length: Annotated[int | None, option("--length", "Steps of each clip [50].", min=1)] = None,
    seed: Annotated[int, option("--seed", "Seed of the set.", min=0)] = 0,
    question: _Question = None,
    goal: _Goal = _DEFAULT_GOAL,
    to: _To = None,
    make_only: _MakeOnly = False,
    queue: _Queue = False,
    annotator: _Annotators = None,
    host: _Host = "127.0.0.1",
    port: Annotated[int, option("--port", "Port; 0 for any.", min=0, max=65535)] = 8899,
    no_browser: _NoBrowser = False,
    out: _Runs = options.DEFAULT_OUT,
    trust: _Trust = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Open the page of a set, which --env or --demos makes first, or of a run that asks.

    Each annotator has a link. The link is secret: who has it can answer. Answers are stored in the
    set's folder as soon as they are given, and the same command goes on where it was left. Other
    machines can reach the page only with --host.

    Example: imitbench label --env Pendulum-v1 --pairs 40
    """
    from imitbench.labelling.answers import check_name
    from imitbench.labelling.label_set import SET_FILE, LabelSet, check_texts
    from imitbench.labelling.queue import is_queue

    check_texts(question, goal)
    names = [check_name(name) for name in annotator or ["me"]]
    page = _Page(names, host, port, not no_browser, quiet, json)
    typed = options.typed_options(context)
    if make_only and (wrong := [typed[name] for name in typed if name in _OF_THE_PAGE]):
        raise InputError(f"--make-only: opens no page; leave out {' and '.join(wrong)}")
    if folder is not None and (queue or is_queue(folder)):
        if wrong := [typed[name] for name in typed if name in _OF_NO_QUEUE]:
            raise InputError(
                f"{folder}: is the queue of a training, whose pairs are shown; leave out "
                f"{' and '.join(wrong)}"
            )
        _show_queue(folder, (env, suite), question, goal if "goal" in typed else None, page)
        return
    if folder is not None and (wrong := [typed[name] for name in typed if name in _OF_NO_SET]):
        raise InputError(
            f"{folder}: is opened as it is; leave out {' and '.join(wrong)}, or leave out the "
            "folder to make a set"
        )
    if queue:
        raise InputError("--queue: needs the folder that a run names by --set answers=FOLDER")
    if folder is None:
        chosen = _Options(
            env, suite, policy, demos, pairs_from, pairs, length, seed, question, goal, out, trust
        )
        chosen.check()
        folder = to or Path("labels") / chosen.default_name
        if (folder / SET_FILE).is_file():
            raise InputError(
                f"{folder}: is a set already; open it by imitbench label {folder}, or name "
                "another folder by --to"
            )
        _make(chosen.request(quiet=quiet), folder, quiet=quiet)
    labels = LabelSet(folder)
    labels.check_clips()
    if not make_only:
        _serve(labels, page)
    elif json:
        _print_set(labels, {})


@dataclass(frozen=True)
class _Options:
    """The options that say what a set is made from."""

    env: str | None
    suite: str | None
    policies: list[str] | None
    demos: str | None
    pairs_from: Path | None
    pairs: int | None
    length: int | None
    seed: int
    question: str | None
    goal: int
    out: Path
    trust: bool

    def check(self) -> None:
        """Raises InputError for options that contradict each other."""
        sources = {
            "--demos": self.demos, "--policy": self.policies, "--pairs-from": self.pairs_from
        }  # fmt: skip
        named = [option for option, value in sources.items() if value]
        if len(named) > 1:
            raise InputError(f"{' and '.join(named)}: name one of them")
        if not named and self.env is None:
            raise InputError(
                "name a set, or what to make one from: --env ID, --demos, --policy or --pairs-from"
            )
        if self.pairs_from is not None and (self.pairs or self.length):
            raise InputError(
                f"--pairs-from {self.pairs_from}: all its pairs are taken as they are; leave out "
                "--pairs and --length"
            )

    @property
    def default_name(self) -> str:
        """Name of the new folder, if none is given."""
        named = [self.demos, *(self.policies or []), self.pairs_from and self.pairs_from.stem]
        name = self.env or next(Path(source).name for source in named if source)
        return name.replace("/", "-").replace(":", "-")

    def request(self, *, quiet: bool) -> SetRequest:
        """Loads the policies, and says what to make."""
        from imitbench.experts.lookup import find_demos, find_environment_if_named
        from imitbench.labelling.build import DEFAULT_QUESTION, SetRequest
        from imitbench.labelling.fragments import load_actors

        spec = find_environment_if_named(self.env, self.suite)
        demos = None if self.demos is None else find_demos(self.demos)
        actors: Sequence[Actor] = ()
        if demos is None and self.pairs_from is None:
            spec, actors = load_actors(
                self.policies or ["random"],
                spec,
                out=self.out,
                trust=self.trust,
                notify=make_notifier(quiet=quiet),
            )
        return SetRequest(
            env=spec,
            actors=actors,
            demos=demos,
            recorded=self.pairs_from,
            pairs=self.pairs or 40,
            length=self.length or 50,
            seed=self.seed,
            question=self.question or DEFAULT_QUESTION,
            goal=self.goal,
        )


def _make(request: SetRequest, folder: Path, *, quiet: bool) -> None:
    from imitbench.labelling.build import build_set
    from imitbench.labelling.schedule import asked_of_each

    start_torch()
    with progress_bar("clips", quiet=quiet) as report:
        built = build_set(request, folder, lambda _step, done, total: report(done, total))
    if quiet:
        return
    obvious = sum(pair.expected is not None for pair in built.header.pairs)
    ordinary = len(built.header.pairs) - obvious
    note(
        f"{folder}: {count(ordinary, 'pair')} and {count(obvious, 'obvious pair')}; each annotator "
        f"gets {asked_of_each(built.header)}"
    )
    if built.unrendered is not None:
        note(f"clips are traces of the observations: {built.unrendered}")


@dataclass(frozen=True)
class _Page:
    """How a page is shown."""

    names: list[str]
    host: str
    port: int
    browser: bool
    quiet: bool
    json: bool


def _show_queue(
    folder: Path,
    env: tuple[str | None, str | None],
    question: str | None,
    goal: int | None,
    page: _Page,
) -> None:
    """Shows the pairs of a running training, as they come."""
    from imitbench.experts.lookup import find_environment_if_named
    from imitbench.labelling.build import DEFAULT_QUESTION
    from imitbench.labelling.clips import FragmentPainter
    from imitbench.labelling.queue import LabelQueue, queue_growing

    painter = FragmentPainter(find_environment_if_named(*env))
    try:
        labels = LabelQueue(
            folder, painter, question=question or DEFAULT_QUESTION, goal=goal or _DEFAULT_GOAL
        )
        kept = labels.header
        for flag, given, stays in (
            ("--question", question, kept.question), ("--goal", goal, kept.goal)
        ):  # fmt: skip
            if given not in (None, stays):
                raise InputError(
                    f"{folder}: was first opened with {flag} {one_line(stays, 60)}, which stays; "
                    f"leave out {flag}"
                )
        if not page.quiet and not painter.rendered:
            note(
                "clips are traces of the observations; "
                + ("its states cannot be rendered" if env[0] else "add --env ID to render them")
            )
        _serve(labels, page, queue_growing(labels, note))
    finally:
        painter.close()


def _serve(
    labels: LabelSet | LabelQueue, page: _Page, growing: AbstractContextManager[None] | None = None
) -> None:
    from imitbench.labelling.server import LabellingServer
    from imitbench.util.local_server import is_loopback

    host, quiet, json = page.host, page.quiet, page.json
    with (
        LabellingServer(labels, host=host, port=page.port) as server,
        growing or nullcontext(),
    ):
        links = [(name, server.link(server.store.annotator(name))) for name in page.names]

        def serve() -> None:
            if json:
                _print_set(labels, dict(links))
            else:
                for name, link in links:
                    typer.echo(f"{name}: {link}" if len(links) > 1 else link)
            if not quiet:
                if not is_loopback(host):
                    note(
                        "other machines can reach this page, without encryption; keep links secret"
                    )
                note("answers are stored as they are given; Ctrl-C ends the page")
            if page.browser and is_loopback(host):
                open_browser(links[0][1])
            server.wait()

        serve_until_stopped(serve)
        answers = len(server.store.answers())
    if not quiet:
        note(f"{count(answers, 'answer')} stored; see imitbench label status {labels.folder}")


def _print_set(labels: LabelSet | LabelQueue, links: dict[str, str]) -> None:
    print_json({"set": labels.set_id, "folder": str(labels.folder), "links": links})


_Weights = Annotated[
    Literal["equal", "obvious"],
    option("--weights", "Weigh annotators equally, or by their obvious pairs."),
]


@app.command("status")
def label_status(folder: _Set, json: options.Json = False) -> None:
    """Show progress, agreement, self-consistency and time per answer.

    Agreement is Krippendorff's alpha with a 95 % bootstrap interval over pairs; a tie lies half-way
    between left and right.

    Example: imitbench label status labels/Pendulum-v1
    """
    from imitbench.labelling.agreement import agreement
    from imitbench.labelling.exchange import alpha_text, share_text, summaries
    from imitbench.labelling.queue import QueueSet
    from imitbench.labelling.schedule import asked_of_each, schedule

    with _opened(folder) as (labels, store):
        people = summaries(labels, store)
        alpha = agreement(store.answers())
        if isinstance(labels, QueueSet):
            total = labels.shown_to_each
        else:
            total = len(schedule(labels.header, 0))
    if json:
        print_json(
            {
                "set": labels.set_id,
                "env": labels.header.env,
                "pairs": len(labels.header.pairs),
                "per_annotator": total,
                "alpha": {**vars(alpha), "metric": "interval"},
                "annotators": [
                    {"name": person.name, **vars(summary), "weight": summary.weight()}
                    for person, summary in people
                ],
            }
        )
        return
    rows = []
    for person, found in people:
        tie, skip = found.choices["tie"], found.choices["skip"]
        seconds = None if found.median_ms is None else found.median_ms / 1000
        rows.append(
            [
                person.name,
                f"{found.answers} of {total}",
                tie,
                skip,
                None if found.left_share is None else round(found.left_share, 2),
                seconds,
                share_text(found.consistent, found.repeats),
                share_text(found.sane, found.obvious),
            ]
        )
    header = ["annotator", "answers", "ties", "skips", "left", "median s", "same again", "obvious"]
    print_table(header, rows)
    if not isinstance(labels, QueueSet):
        note(f"each annotator gets {asked_of_each(labels.header)}")
    if len(people) > 1 or not math.isnan(alpha.value):
        typer.echo(f"agreement (Krippendorff's alpha): {alpha_text(alpha)}")


@app.command("export")
def export_labels(
    folder: _Set,
    to: Annotated[
        Path,
        argument(
            "OUT",
            "New folder for a data set with a card; or FILE.safetensors, a preference data "
            "set to train on; or FILE.jsonl, a line per answer.",
        ),
    ],
    weights: _Weights = "equal",
    names: Annotated[
        bool, option("--names", "Keep the names of annotators: personal data.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Write the answers as preferences. Annotators are numbered unless --names is given.

    Example: imitbench label export labels/Pendulum-v1 preferences
    """
    from imitbench.labelling.exchange import export

    with _opened(folder) as (labels, store):
        rows = export(labels, store, to, weights=weights, names=names)
    answers = sum(len(row.answers) for row in rows)
    if json:
        print_json({"to": str(to), "pairs": len(rows), "answers": answers})
    else:
        note(f"{to}: {count(len(rows), 'pair')} with {count(answers, 'answer')}")


app.command("push")(push_preferences)


@app.command("import")
def import_labels(
    folder: _Set,
    source: Annotated[
        Path, argument("FROM", "Folder or file of label export, or answers at the terminal.")
    ],
    annotator: Annotated[
        str, option("--annotator", "Name for answers without one.", "NAME")
    ] = "imported",
    json: options.Json = False,
) -> None:
    """Add answers from a file to a set. Repeating an import changes nothing.

    Example: imitbench label import labels/Pendulum-v1 preferences
    """
    from imitbench.labelling.answers import check_name
    from imitbench.labelling.exchange import import_answers

    with _opened(folder, grows=False) as (labels, store):
        added = import_answers(labels, store, source, check_name(annotator))
    _print_added(folder, added, json=json)


@app.command("merge")
def merge_labels(
    folder: _Set,
    copies: Annotated[list[Path], argument("COPY...", "Copies of the set with more answers.")],
    json: options.Json = False,
) -> None:
    """Add the answers that were given in copies of a set, for example on other machines.

    Annotators with the same link are the same person. Repeating a merge changes nothing.

    Example: imitbench label merge labels/Pendulum-v1 copy-of-ada copy-of-bob
    """
    from imitbench.labelling.exchange import merge

    with _opened(folder, grows=False) as (labels, store):
        added = sum(merge(labels, store, copy) for copy in copies)
    _print_added(folder, added, json=json)


def _print_added(folder: Path, added: int, *, json: bool) -> None:
    if json:
        print_json({"folder": str(folder), "added": added})
    else:
        note(f"{folder}: {count(added, 'answer')} added")


@contextmanager
def _opened(folder: Path, *, grows: bool = True) -> Iterator[tuple[LabelSet, AnswerStore]]:
    """Opens a set; or, if it may be one that grows, the queue of a training as it is now."""
    from imitbench.labelling.answers import AnswerStore
    from imitbench.labelling.label_set import LabelSet
    from imitbench.labelling.queue import QueueSet, is_queue

    if is_queue(folder) and not grows:
        raise InputError(
            f"{folder}: is the queue of a training, which gets its answers from the page or from "
            "answers.jsonl; name a set"
        )
    labels = QueueSet(folder) if is_queue(folder) else LabelSet(folder)
    store = AnswerStore(labels.answers_path, labels.set_id)
    try:
        yield labels, store
    finally:
        store.close()
