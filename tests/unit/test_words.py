"""Words that Headwater no longer uses: the field has better ones.

Every tracked text file is scanned, identifiers included: `tell_of` and `StreamTeller` count as
words. What has to keep a word, such as a name on the wire, is allowed by name below.
"""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Pattern -> what to write instead. Matched against lines in lower case, in which `_` and the
# boundaries of camelCase are spaces.
RETIRED = {
    r"tells?|told|telling|tellers?": "emit, report, log, notify, record, show",
    r"says?|said|saying": "log, report, state, name, show",
    r"hears?|heard": "receive, learn",
    r"sets? aside|setting aside|aside": "send to the dead letter topic",
    r"behind": "after",
    r"beside": "next to, alongside",
    r"anew": "again, recreated",
    r"whole": "complete, entire, all of",
    r"whoever|whomever|somebody|nobody|anybody|everybody": "the client, the service, no process",
    r"(?<!there )(?:is|are|was|were) no(?! (?:longer|more|less|later|earlier|such)\b)": "is not a",
    r"so (?:many|much|long)(?! as\b)": "N",
    r"of (?:its|their|our|his|your|one s|one's) own": "its own, or nothing",
    r"on (?:its|their) way": "in flight",
    r"at a time": "per partition",
    r"the class archive|archives? of classes|jars archive": "class data sharing (CDS)",
    r"figures?": "metric, value, number",
    r"questions?": "query",
    r"mend(?:s|ed|ing)?": "fix",
    r"for ever": "forever, indefinitely",
    r"strangers?": "another process, an unknown client",
    r"upon|thereof|whereof|thereby": "on, of it",
}
# Identifiers, as they are written.
RETIRED_NAMES = {
    r"\b_?most_\w+|\b_?MOST_\w+": "max_…",
    r"\blet_go\b|\btake_note\b": "resume, snapshot",
    r"\b(?:Postman|Handover|HandingEmitter|Unhurried|WatchedContexts)\b": "see ARCHITECTURE.md",
}

# Not scanned: what other tools write, and texts that others have written.
SKIPPED = (
    "LICENSE",
    "*.lock",
    "*.png",
    "web/package-lock.json",
    "src/headwater/catalog/static/*",
    "src/headwater/catalog/store/migrations/*",
    "tests/contract/*.jsonl",
    "tests/unit/test_words.py",
)
# File pattern -> text that may stay there, and why.
ALLOWED: dict[str, tuple[str, ...]] = {
    # Columns of the catalog's database.
    "src/headwater/catalog/store/*.py": ("job_told", "rows_told"),
    "src/headwater/catalog/store/points.py": ("figures",),
    "tests/integration/test_catalog_routes.py": ("job_told",),
    "tests/integration/test_service_metrics.py": ("figures",),
    "tests/integration/test_alerts.py": ("(at, figures)",),
    # A field of the API, in the answers about the lag of the index.
    "src/headwater/catalog/api/record_schemas.py": ("behind: dict",),
    "src/headwater/service/record_queries.py": ('"behind"',),
    "src/headwater/tracing/lag.py": ('"behind"',),
    "src/headwater/cli/replay.py": ('"behind"',),
    "tests/integration/test_lineage_index_job.py": ('"behind"',),
    "docs/reference/openapi.json": ("behind", "Behind"),
    "docs/guides/tracing.md": ("`behind`",),
    "web/src/api/schema.ts": ("behind: {", "Behind"),
    "web/src/views/RecordView.tsx": ("behind: Record<", "found.behind", "found.dryRun.behind"),
    # A key of `headwater bench --json`.
    "src/headwater/bench/result.py": ('"figures"',),
    # A method of `collections.Counter`.
    "src/headwater/cli/dead_letter.py": ("most_common",),
    # A former command, which keeps working.
    "src/headwater/cli/jars.py": ("`headwater jars archive`",),
    "tests/unit/cli/test_jars_command.py": ("`headwater jars archive`",),
    # HTML elements.
    "web/src/views/*.tsx": ("<aside", "</aside>"),
    "web/src/ui/Chart.tsx": ("<figure", "</figure>"),
    "web/src/styles/base.css": ("figure,",),
    # The Unix user.
    "src/headwater/service/*.py": ('"nobody"',),
    "docs/decisions/00*.md": ("`nobody`",),
    "tests/other_user.py": ('"nobody"',),
    "tests/security/test_local_processes.py": ("of nobody",),
    # Former names of settings, which keep working.
    "src/headwater/settings/*.py": (
        "most_backoff_seconds",
        "most_tries",
        "most_waiting_events",
        "most_named",
        "most_incidents",
    ),
    "tests/unit/settings/test_settings.py": ("most_tries",),
}

_WORDS = re.compile(rf"(?<![a-z])(?:{'|'.join(RETIRED)})(?![a-z])")
_NAMES = re.compile("|".join(RETIRED_NAMES))
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def plain(line: str) -> str:
    """A line as words: identifiers are split."""
    return _CAMEL.sub(" ", line).replace("_", " ").lower()


def retired_in(text: str, allowed: tuple[str, ...] = ()) -> list[tuple[int, str]]:
    """Line numbers and retired words of a text."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for each in allowed:
            line = line.replace(each, "")
        found += [(number, match[0]) for match in _WORDS.finditer(plain(line))]
        found += [(number, match[0]) for match in _NAMES.finditer(line)]
    return found


def tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        name
        for name in listed.stdout.splitlines()
        if (ROOT / name).is_file() and not any(fnmatchcase(name, each) for each in SKIPPED)
    ]


def test_no_file_uses_a_retired_word() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    found = []
    for name in tracked():
        content = (ROOT / name).read_bytes()
        if b"\0" in content:
            continue
        allowed = tuple(
            text
            for pattern, texts in ALLOWED.items()
            if fnmatchcase(name, pattern)
            for text in texts
        )
        found += [
            f"{name}:{line}: {word!r}"
            for line, word in retired_in(content.decode("utf-8"), allowed)
        ]
    assert found == [], "write instead: " + "; ".join(RETIRED.values())


@pytest.mark.parametrize(
    "line",
    [
        "class StreamTeller:",
        "def tell_of_query() -> None:",
        "its process ended and nobody noticed",
        "the condition is no question",
        "MOST_EVENTS = 3",
        "a thread of its own",
    ],
)
def test_a_retired_word_is_found(line: str) -> None:
    assert retired_in(line)


@pytest.mark.parametrize(
    "line",
    [
        "there is no such topic",
        "it is no longer read",
        "besides",
        "the wholesale price",
        "foretell",
    ],
)
def test_other_words_are_left_alone(line: str) -> None:
    assert not retired_in(line)
