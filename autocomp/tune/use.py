"""What is known about a target's kernels from earlier searches, read without importing what a search needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autocomp.errors import AutocompError
from autocomp.store import cache_root, why_not_ours

if TYPE_CHECKING:
    from autocomp.options import Options
    from autocomp.rewrite.rule import RuleSet
    from autocomp.targets import Target
    from autocomp.trace import Trace
    from autocomp.tune.database import Tuned


def database_path(options: Options) -> Path:
    """The database that options name, else the one in the cache folder. Raises AutocompError where that may be another user's doing."""
    if options.tuning_database:
        return Path(options.tuning_database)
    root = cache_root()
    if why := why_not_ours(root):
        raise AutocompError(f"the cache folder cannot be used: it {why}", where=str(root),
                            hint="set $AUTOCOMP_CACHE to a folder of yours, or give --database")  # fmt: skip
    return root / "tuning.sqlite"


@dataclass(frozen=True)
class Measured:
    """Finished searches by kernel key. `stamp` changes when one of them does, "" where there are none."""

    searches: Mapping[str, Tuned]
    stamp: str = ""


def measured(target: Target, rules: RuleSet, options: Options, trace: Trace) -> Measured:
    """What is known for this target and these rules; a database that cannot be read costs a note in the trace."""
    if not options.tuned:
        return Measured({})
    from autocomp.tune.key import place_of

    try:
        path = database_path(options)
        if not path.exists():
            return Measured({})
        from autocomp.tune.database import read_tuned, stamp

        at = place_of(target, rules, options)
        every = [t for t in read_tuned(path, lambda text: trace.add("note", "tuning database", text=text)) if t.place.chip == at.chip]
    except AutocompError as e:
        trace.add("note", "tuning database", text=f"not used: {e.what} ({e.where})")
        return Measured({})
    found = [t for t in every if t.place == at]
    if every and not found:
        trace.add("note", "tuning database", text=f"not used: it has {len(every)} kernels of this chip, all for other scheduling rules or "
                  "another version; `autocomp tune` measures again")  # fmt: skip
    return Measured({t.kernel: t for t in found}, stamp(found))
